"""Sound that a child decodes and another process reads."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from edgeserve.audio.decode import SEND
from edgeserve.errors import UnsupportedMedia
from edgeserve.processes import codec
from edgeserve.processes.frames import FROM_CHILD, Broken, Channel, Frame, Kind


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
        channel = Channel(socket.socket(fileno=os.dup(self.socket.descriptor)), FROM_CHILD)
        with contextlib.closing(channel):
            yield from pieces(lambda: self._next(channel))

    def _next(self, channel: Channel) -> Frame:
        try:
            frame = channel.receive()
        except (Broken, OSError):
            frame = None
        match frame and (frame.kind, frame.head):
            case (Kind.EVENTS, _) | (Kind.DONE, {"result": _}):
                return cast(Frame, frame)
            case Kind.DONE, {"error": value}:
                with contextlib.suppress(ValueError):  # no error at all
                    raise codec.read_error(value)
        text = f"{self.param} makes its decoder fail, or takes more memory or processor time than it may"
        raise UnsupportedMedia(f"{text}; {SEND}", param=self.param)


def pieces(receive: Callable[[], Frame]) -> Iterator[bytes]:
    """The samples in the frames up to the last one."""
    while (frame := receive()).kind is not Kind.DONE:
        yield bytes(frame.body)


codec.allow(Piped)
