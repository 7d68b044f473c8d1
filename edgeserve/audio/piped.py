"""Sound that a child decodes and another process reads."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edgeserve.audio.decode import SEND
from edgeserve.errors import UnsupportedMedia
from edgeserve.media.bounded import LACKING
from edgeserve.processes import codec
from edgeserve.processes.frames import Broken, Channel, Frame, Kind


@dataclass(frozen=True, slots=True)
class Piped:
    """Samples from a decoder's socket, which another process has passed on (``apart.Decoding.descriptor`` there).

    They come once: a second ``pieces`` has the rest, or none. Whoever got the socket closes it. ``param`` names the
    field of the request in errors, and ``seconds`` is the length of the sound, 0 when it is unknown.
    """

    socket: codec.Passed
    seconds: float = 0.0
    param: str = "audio"

    def pieces(self) -> Iterator[bytes]:
        """As ``Audio.pieces``."""
        channel = Channel(socket.socket(fileno=os.dup(self.socket.descriptor)))
        with contextlib.closing(channel):
            yield from pieces(lambda: self._next(channel))

    def _next(self, channel: Channel) -> Frame:
        try:
            frame = channel.receive()
        except (Broken, OSError):
            frame = None
        if frame is None or (frame.kind is Kind.DONE and LACKING in frame.head):
            text = f"{self.param} makes its decoder fail, or takes more memory or processor time than it may"
            raise UnsupportedMedia(f"{text}; {SEND}", param=self.param)
        if frame.kind is Kind.DONE and "error" in frame.head:
            raise codec.read_error(frame.head["error"])
        return frame


def pieces(receive: Callable[[], Frame]) -> Iterator[bytes]:
    """The samples in the frames up to the last one."""
    while (frame := receive()).kind is not Kind.DONE:
        yield bytes(frame.body)


codec.allow(Piped)
