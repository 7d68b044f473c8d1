"""Sound that a child decodes and another process reads."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from edgeserve.audio.bounds import SEND
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError, UnsupportedMedia
from edgeserve.media.task import PATIENCE_SECONDS
from edgeserve.processes import codec, failures
from edgeserve.processes.frames import FROM_CHILD, Broken, Channel, Frame, Kind
from edgeserve.sound import INPUT_SAMPLE_RATE, PIECE_SECONDS

SAMPLE_BYTES = 4
LOOK_SECONDS = 0.005
"""Time for which an engine waits for a decoder before others have their turn. A decoder may compute for minutes."""


class Line(Protocol):
    """An end of the socket from which samples come."""

    def comes(self, seconds: float) -> bool:
        """As ``Channel.comes``."""
        ...

    def receive(self) -> Frame:
        """The next frame. Raises the decoder's error."""
        ...

    def nonsense(self) -> EdgeserveError:
        """The error for what no decoder sends."""
        ...

    def silent(self) -> EdgeserveError:
        """The error for a decoder that sends nothing for ``PATIENCE_SECONDS``."""
        ...


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
            yield from pieces(_Passed(channel, self.param), self.max_seconds)


@dataclass(frozen=True, slots=True)
class _Passed:
    """A ``Line`` to a decoder that is another process's child."""

    channel: Channel
    param: str

    def comes(self, seconds: float) -> bool:
        return self.channel.comes(seconds)

    def receive(self) -> Frame:
        try:
            frame = self.channel.receive()
        except (Broken, OSError):
            frame = None
        match frame and (frame.kind, frame.head):
            case (Kind.EVENTS, _) | (Kind.DONE, {"result": _}):
                return cast(Frame, frame)
            case Kind.DONE, {"error": value}:
                with contextlib.suppress(ValueError):  # no error at all
                    raise failures.read_error(value)
        raise self.nonsense()

    def nonsense(self) -> EdgeserveError:
        text = f"{self.param} makes its decoder fail, or takes more memory or processor time than it may"
        return UnsupportedMedia(f"{text}; {SEND}", param=self.param)

    def silent(self) -> EdgeserveError:
        return self.nonsense()


def pieces(line: Line, max_seconds: float, clock: Callable[[], float] = time.monotonic) -> Iterator[bytes]:
    """The samples in the frames up to the last one, and an empty piece after each ``LOOK_SECONDS`` without a frame.

    Raises ``line.nonsense()`` for what no decoder sends: a part of a sample, or more sound than the longest, and one
    piece. Raises ``line.silent()`` for a decoder that sends nothing for too long. ``clock`` in seconds.
    """
    left = (max_seconds + PIECE_SECONDS) * INPUT_SAMPLE_RATE * SAMPLE_BYTES
    while True:
        yield from _awaited(line, clock)
        frame = line.receive()
        if frame.kind is Kind.DONE:
            return
        left -= len(frame.body)
        if left < 0 or len(frame.body) % SAMPLE_BYTES:
            raise line.nonsense()
        yield bytes(frame.body)


def _awaited(line: Line, clock: Callable[[], float]) -> Iterator[bytes]:
    """Empty pieces until a frame comes. Where others take their turn, no time is lost by waiting."""
    began = looked = clock()
    while not line.comes(max(0.0, looked + LOOK_SECONDS - clock())):
        looked = clock()
        if looked - began > PATIENCE_SECONDS:
            raise line.silent()
        yield b""


codec.allow(Piped)
