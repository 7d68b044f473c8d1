"""Sound files, read and written in this process or in children: one choice, made when the server is built."""

from __future__ import annotations

from typing import Protocol

from edgeserve.audio.clip import check_audio
from edgeserve.audio.encode import FORMS, Encoder
from edgeserve.media.leash import Leash
from edgeserve.sound import Audio


class SoundFiles(Protocol):
    """Any thread may use it."""

    def check(self, data: bytes, max_seconds: float, param: str, leash: Leash) -> Audio:
        """The sound of a file, after a check of its container, its length and its first samples.

        Blocks for about a second an hour of sound. Raises UnsupportedMedia, TooLarge, InvalidRequest for a cut file,
        Cancelled once ``leash`` is cut, and Busy.
        """
        ...

    def samples(self, data: bytes, max_seconds: float, param: str, leash: Leash) -> bytes:
        """The samples of a short file, after the same check. Raises as ``check`` and ``Audio.pieces`` do."""
        ...

    def prepare(self) -> None:
        """Begin what the first check or encoder would wait for. Never waits."""
        ...

    def encoder(self, form: str, rate: int) -> Encoder:
        """An encoder of a format of ``encode.FORMS`` for int16 samples at ``rate`` Hz. Raises Busy."""
        ...

    def close(self) -> None:
        """End all children. Blocks for seconds at most."""
        ...


class SoundFilesHere:
    """All work on the threads of this process. FFmpeg's failures are failures of the process."""

    def check(self, data: bytes, max_seconds: float, param: str, leash: Leash) -> Audio:
        leash.check()
        return check_audio(data, max_seconds, param)

    def samples(self, data: bytes, max_seconds: float, param: str, leash: Leash) -> bytes:
        found = bytearray()
        for piece in self.check(data, max_seconds, param, leash).pieces():
            leash.check()
            found += piece
        return bytes(found)

    def prepare(self) -> None:
        """Nothing waits."""

    def encoder(self, form: str, rate: int) -> Encoder:
        return FORMS[form].encoder(rate)

    def close(self) -> None:
        """There are no children."""
