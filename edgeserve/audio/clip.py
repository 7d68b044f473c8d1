"""An audio file, decoded while it is read: memory never holds an hour of samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from edgeserve.dataclass import dataclass
from edgeserve.errors import UnsupportedMedia
from edgeserve.processes import codec


@dataclass(frozen=True, slots=True)
class Clip:
    """An audio file's bytes, in any form that ``decode`` knows.

    Fields:
        param        field of the request that errors name
        max_seconds  longest sound
        seconds      length of the sound; 0 when the file does not state it
    """

    data: bytes = field(repr=False)
    max_seconds: float
    param: str = "audio"
    seconds: float = 0.0

    def pieces(self) -> Iterator[bytes]:
        """See ``messages.Audio``. Raises InvalidRequest for a damaged file, and TooLarge beyond the limit."""
        from edgeserve.audio import decode

        return decode.pieces(self.data, self.max_seconds, self.param)


def check_audio(data: bytes, max_seconds: float, param: str = "audio") -> Clip:
    """The clip, after a check of its container, its length and its first samples.

    Blocks for about a second an hour of sound. Raises UnsupportedMedia, TooLarge, and InvalidRequest for a cut file.
    """
    from edgeserve.audio import decode

    if not data:
        raise UnsupportedMedia(f"{param} is empty", param=param)
    return Clip(data, max_seconds, param, decode.check(data, max_seconds, param))


codec.allow(Clip)  # an engine in a process of its own then decodes it there
