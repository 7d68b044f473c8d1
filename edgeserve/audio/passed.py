"""Bytes in the middle of a file that its reader passed over, since their check sums are wrong or their frame is lost.

FFmpeg then goes on at the next place that it knows, and says so in its log only. A container that says where each
packet lies (MP4), or has nothing that tells one place from another (MP3, AAC), passes over nothing: there the decoder
tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgeserve.audio.gaps import GAP_SECONDS

if TYPE_CHECKING:
    from av import Packet

FOLLOWED = ("flac", "ogg", "matroska,webm")
"""FFmpeg's names of the containers in which it is known."""
OGG_HEAD = 27
"""Bytes of a page before the sizes of its segments (RFC 3533, section 6); their count is the last of them."""
OGG_CONTINUES, OGG_FIRST = 1, 2
"""Flags of a page that begins with the rest of a packet, and of a stream's first page."""
MATROSKA_HEADS = 512
"""Bytes between two packets that are no sound: the heads of a cluster and a block, a list of places."""
MATROSKA_FILE = b"\x1a\x45\xdf\xa3"
"""A file begins, here one that was joined to another (EBML, RFC 8794)."""


class Passed:
    """Follows the packets of all streams in a file, in its order; ``end``: seconds, where the last of sound ends."""

    def __init__(self, container: str, data: bytes, stream: int) -> None:
        self.end = 0.0
        self._container, self._data, self._stream = container, data, stream
        self._place, self._read = -1, 0  # of the last packet, and the bytes that were read from there on

    def before(self, packet: Packet[Any]) -> bool:
        """Whether bytes were passed over between the last packet of sound and this one; it then counts no further."""
        if self._container not in FOLLOWED:
            return False
        sound = packet.stream.index == self._stream
        if self._place >= 0 and sound and self._between(packet):
            return True
        if packet.pos is not None and packet.pos != self._place and (sound or self._container != "ogg"):
            self._place, self._read = packet.pos, 0
        self._read += packet.size
        if sound and packet.pts is not None and packet.time_base is not None:
            self.end = float((packet.pts + (packet.duration or 0)) * packet.time_base)
        return False

    def _between(self, packet: Packet[Any]) -> bool:
        if self._container == "flac":  # what holds no frame with a right check sum has no time; joined files may
            return packet.pts is None and packet.size > 0 and b"fLaC" not in bytes(packet)
        if packet.pos is None or packet.pos <= self._place:
            return False
        if self._container == "ogg":
            return self._lost_page(packet.pos)
        if packet.pts is None or packet.time_base is None or packet.pos - self._place - self._read <= MATROSKA_HEADS:
            return False
        joined = MATROSKA_FILE in self._data[self._place + self._read : packet.pos]
        return not joined and float(packet.pts * packet.time_base) - self.end > GAP_SECONDS

    def _lost_page(self, until: int) -> bool:
        """Whether a page with sound of this stream, or no page at all, lies between the last packet's and this."""
        page, data = self._place, self._data
        serial = data[page + 14 : page + 18]
        while (page := page + _page_size(data, page)) < until:
            if data[page : page + 4] != b"OggS":
                return True
            time = int.from_bytes(data[page + 6 : page + 14], "little", signed=True)
            # A first page begins a joined file; 0 is its tags', and -1 that of a page on which no packet ends.
            own = data[page + 14 : page + 18] == serial and time > 0 and not data[page + 5] & OGG_FIRST
            if own and not _only_continues(data, page):
                return True
        return False


def _only_continues(data: bytes, page: int) -> bool:
    """Whether no packet begins on this page: FFmpeg tells of none, and has the rest of the last one."""
    sizes = data[page + OGG_HEAD : page + OGG_HEAD + data[page + OGG_HEAD - 1]]
    return bool(data[page + 5] & OGG_CONTINUES) and all(size == 255 for size in sizes[:-1])


def _page_size(data: bytes, page: int) -> int:
    head = OGG_HEAD + data[page + OGG_HEAD - 1]
    return head + sum(data[page + OGG_HEAD : page + head])
