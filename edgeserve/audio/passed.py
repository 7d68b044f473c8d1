"""Detection of bytes in the middle of a file that FFmpeg skipped, for a wrong checksum or a lost frame.

FFmpeg resumes at the next frame that it finds, and says so only in its log. Some containers skip nothing, and the
decoder reports the damage: MP4 states where each packet lies; MP3 and AAC have no marks to resume at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgeserve.audio.gaps import GAP_SECONDS, in_seconds

if TYPE_CHECKING:
    from av import Packet

FOLLOWED = ("flac", "ogg", "matroska,webm")
"""Containers in which skipped bytes can be detected, by FFmpeg's names."""
OGG_HEAD = 27
"""Bytes of a page before the sizes of its segments (RFC 3533, section 6). The last byte is their number."""
OGG_CONTINUES, OGG_FIRST = 1, 2
"""Flags of a page that begins with the rest of a packet, and of a stream's first page."""
MATROSKA_HEADS = 512
"""Most bytes between two packets that are no sound: heads of a cluster and a block, an index."""
MATROSKA_FILE = b"\x1a\x45\xdf\xa3"
"""Begin of a Matroska file, here of one that was appended to another (EBML, RFC 8794)."""


class Passed:
    """Follows the packets of all streams in a file, in its order. ``end``: end of the last sound in seconds."""

    def __init__(self, container: str, data: bytes, stream: int) -> None:
        self.end = 0.0
        self._container, self._data, self._stream = container, data, stream
        self._place, self._read = -1, 0  # place of the last packet, and bytes read since then

    def before(self, packet: Packet[Any]) -> bool:
        """Whether FFmpeg skipped bytes between the last packet of sound and this one. Counting ends there."""
        if self._container not in FOLLOWED:
            return False
        sound = packet.stream.index == self._stream
        if self._place >= 0 and sound and self._between(packet):
            return True
        if packet.pos is not None and packet.pos != self._place and (sound or self._container != "ogg"):
            self._place, self._read = packet.pos, 0
        self._read += packet.size
        if sound and packet.pts is not None and (base := packet.time_base) is not None:
            self.end = in_seconds(packet.pts + (packet.duration or 0), base)
        return False

    def _between(self, packet: Packet[Any]) -> bool:
        if self._container == "flac":  # bytes without a valid frame have no time; the head of a joined file is allowed
            return packet.pts is None and packet.size > 0 and b"fLaC" not in bytes(packet)
        if packet.pos is None or packet.pos <= self._place:
            return False
        if self._container == "ogg":
            return self._lost_page(packet.pos)
        base = packet.time_base
        if packet.pts is None or base is None or packet.pos - self._place - self._read <= MATROSKA_HEADS:
            return False
        joined = MATROSKA_FILE in self._data[self._place + self._read : packet.pos]
        return not joined and in_seconds(packet.pts, base) - self.end > GAP_SECONDS

    def _lost_page(self, until: int) -> bool:
        """Whether a page with sound of this stream, or no page at all, lies between the last packet's page and this."""
        page, data = self._place, self._data
        serial = data[page + 14 : page + 18]
        while (page := page + _page_size(data, page)) < until:
            if data[page : page + 4] != b"OggS":
                return True
            time = int.from_bytes(data[page + 6 : page + 14], "little", signed=True)
            # A first page begins a joined file. Time 0 means tags, and -1 a page on which no packet ends.
            own = data[page + 14 : page + 18] == serial and time > 0 and not data[page + 5] & OGG_FIRST
            if own and not _only_continues(data, page):
                return True
        return False


def _only_continues(data: bytes, page: int) -> bool:
    """Whether no packet begins on this page: FFmpeg reports no such page."""
    sizes = data[page + OGG_HEAD : page + OGG_HEAD + data[page + OGG_HEAD - 1]]
    return bool(data[page + 5] & OGG_CONTINUES) and all(size == 255 for size in sizes[:-1])


def _page_size(data: bytes, page: int) -> int:
    head = OGG_HEAD + data[page + OGG_HEAD - 1]
    return head + sum(data[page + OGG_HEAD : page + head])
