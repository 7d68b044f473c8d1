"""Sound files read and written by FFmpeg in short-lived children, so that a crafted file harms only its own request."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterator

from edgeserve.audio import piped
from edgeserve.audio.bounds import SEND
from edgeserve.audio.encode import FORMS, PCM_RATE, Encoder
from edgeserve.audio.encoders import PLACES, Encoders
from edgeserve.errors import UnsupportedMedia
from edgeserve.media.children import Children, scarce
from edgeserve.media.helper import Helper
from edgeserve.media.leash import Leash
from edgeserve.media.task import Bounds, Task, most
from edgeserve.processes.closing import Closing
from edgeserve.processes.frames import shared_memory
from edgeserve.units import GB, MB

CHILD = "edgeserve.audio.child"
SHARED = ("av", "av.subtitles.stream", CHILD)
"""Modules that children need: imported once, and shared by all of them.

PyAV imports the second one for a kind of stream, when a child may have no memory left for it.
"""
CHECK_CPU, CHECK_CPU_MB = 3, 2
"""Seconds of processor time for a check: so many, and so many more for each MB. FFmpeg takes 0.1 s for a MB."""
DECODE_CPU, DECODE_SHARE = 20, 10
"""Seconds of processor time for decoding: so many, and one more for so many seconds of sound."""
DECODER_MEMORY = GB
LARGE_MACHINE = 32 * GB
"""Memory of a machine that leaves a decoder the whole of its bound."""


class SoundFilesApart:
    """A child for each check and each reading, and one for all encoders. WAV and bare samples are written here.

    ``machine``: bytes of its memory. ``encoders``: places, as in ``Encoders``.
    """

    def __init__(self, children: Children, machine: int = LARGE_MACHINE, encoders: int = PLACES) -> None:
        self._children, self._machine = children, machine
        self._encoders = Encoders(children, machine, encoders)

    def check(self, data: bytes, max_seconds: float, param: str, leash: Leash) -> SharedClip:
        if not data:
            raise UnsupportedMedia(f"{param} is empty", param=param)
        file = SharedFile(data)
        memory = most(DECODER_MEMORY, self._machine, len(data))
        bounds = Bounds(memory, CHECK_CPU + CHECK_CPU_MB * len(data) // MB)
        task = Task(f"{CHILD}:check", "sound check", param, bounds, param, SEND)
        with self._children.start(task, leash) as helper:
            file.give(helper, max_seconds, param)
            seconds = helper.result()
            if not (isinstance(seconds, int | float) and 0 <= seconds < math.inf):
                raise helper.nonsense()
        return SharedClip(self._children, file, max_seconds, param, seconds, memory)

    def samples(self, data: bytes, max_seconds: float, param: str, leash: Leash) -> bytes:
        with self.check(data, max_seconds, param, leash).decode(leash) as decoding:
            return b"".join(decoding.pieces())

    def prepare(self) -> None:
        self._children.prepare()

    def encoder(self, form: str, rate: int) -> Encoder:
        if form == "wav" or (form == "pcm" and rate == PCM_RATE):
            return FORMS[form].encoder(rate)
        return self._encoders.encoder(form, rate)

    def close(self) -> None:
        self._children.close()


class SharedFile:
    """The bytes of a file in memory that other processes can read. They are freed with the object.

    Raises Busy when the system has no memory or descriptor left.
    """

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        try:
            self._descriptor = shared_memory(data)
        except OSError as error:
            raise scarce("a sound file", error) from error
        self._close = weakref.finalize(self, os.close, self._descriptor)

    def give(self, helper: Helper, max_seconds: float, param: str) -> None:
        """Pass the file to a child of ``child.check`` or ``child.decode``."""
        head = {"size": self.size, "max_seconds": max_seconds, "param": param}
        helper.send(head, descriptors=[self._descriptor])


class SharedClip:
    """A checked file. Each reading decodes it in a child of its own.

    ``seconds``: length of the sound; 0 when the file does not state it. ``memory``: bytes that a decoder may take.
    """

    def __init__(
        self, children: Children, file: SharedFile, max_seconds: float, param: str, seconds: float, memory: int
    ) -> None:
        self.seconds, self.param, self._memory = seconds, param, memory
        self._children, self._file, self.max_seconds = children, file, max_seconds

    def pieces(self) -> Iterator[bytes]:
        """See ``Audio.pieces``. Raises InvalidRequest for a damaged file, TooLarge beyond a limit, and Busy."""
        with self.decode() as decoding:
            yield from decoding.pieces()

    def decode(self, leash: Leash | None = None) -> Decoding:
        """Begin to decode; the caller closes the result. The pipe holds what nobody reads, and the decoder waits."""
        cpu = DECODE_CPU + int(min(self.seconds or math.inf, self.max_seconds) / DECODE_SHARE)
        task = Task(f"{CHILD}:decode", "sound decoder", self.param, Bounds(self._memory, cpu), self.param, SEND)
        helper = self._children.start(task, leash)
        try:
            self._file.give(helper, self.max_seconds, self.param)
        except BaseException:
            helper.close()
            raise
        return Decoding(helper, self.max_seconds)


class Decoding(Closing):
    """A file that a child decodes. Either this process reads ``pieces``, or another one ``descriptor`` (``Piped``)."""

    def __init__(self, helper: Helper, max_seconds: float) -> None:
        self._helper, self._max_seconds = helper, max_seconds

    @property
    def descriptor(self) -> int:
        return self._helper.descriptor

    @property
    def pid(self) -> int:
        return self._helper.pid

    def pieces(self) -> Iterator[bytes]:
        return piped.pieces(self._helper, self._max_seconds)

    def check_end(self) -> None:
        """As ``Helper.check_end``, after another process has met the end of the samples."""
        self._helper.check_end()

    def close(self) -> None:
        """Kill the decoder unless it has ended. Idempotent."""
        self._helper.close()
