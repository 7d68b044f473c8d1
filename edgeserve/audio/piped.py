"""Sound that a child decodes and another process reads."""

from __future__ import annotations

import contextlib
import math
import os
import socket
from collections.abc import Callable, Iterator
from typing import cast

from edgeserve.audio.bounds import SEND
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError, UnsupportedMedia
from edgeserve.processes import codec, failures
from edgeserve.processes.frames import FROM_CHILD, Broken, Channel, Frame, Kind
from edgeserve.sound import INPUT_SAMPLE_RATE, PIECE_SECONDS

SAMPLE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Piped:
    """Samples from a decoder's socket, which another process has passed on (``apart.Decoding.descriptor`` there).

    They come once: a second ``pieces`` has the rest, or none. Whoever got the socket closes it. ``param`` names the
    field of the request in errors, and ``seconds`` is the length of the sound, 0 when it is unknown.
    ``max_seconds``: the longest sound; a decoder that a crafted file has taken over would send more.
    """

    socket: codec.Passed
    seconds: float = 0.0
    param: str = "audio"
    max_seconds: float = math.inf

    def pieces(self) -> Iterator[bytes]:
        """As ``Audio.pieces``."""
        channel = Channel(socket.socket(fileno=os.dup(self.socket.descriptor)), FROM_CHILD)
        with contextlib.closing(channel):
            yield from pieces(lambda: self._next(channel), self.max_seconds, self._refused)

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
                    raise failures.read_error(value)
        raise self._refused()

    def _refused(self) -> EdgeserveError:
        text = f"{self.param} makes its decoder fail, or takes more memory or processor time than it may"
        return UnsupportedMedia(f"{text}; {SEND}", param=self.param)


def pieces(receive: Callable[[], Frame], max_seconds: float, refused: Callable[[], EdgeserveError]) -> Iterator[bytes]:
    """The samples in the frames up to the last one.

    Raises ``refused()`` for what no decoder sends: a part of a sample, or more sound than the longest, and one piece.
    """
    left = (max_seconds + PIECE_SECONDS) * INPUT_SAMPLE_RATE * SAMPLE_BYTES
    while (frame := receive()).kind is not Kind.DONE:
        left -= len(frame.body)
        if left < 0 or len(frame.body) % SAMPLE_BYTES:
            raise refused()
        yield bytes(frame.body)


codec.allow(Piped)
