"""A file of sound as it came, decoded while it is read: an hour of it never is an hour of samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from edgeserve.errors import UnsupportedMedia


@dataclass(frozen=True, slots=True)
class Clip:
    """File bytes of any form that ``decode`` knows. ``param``: what errors name; ``max_seconds``: of sound at most;
    ``seconds``: how long it is, 0 where the file does not tell."""

    data: bytes = field(repr=False)
    max_seconds: float
    param: str = "audio"
    seconds: float = 0.0

    def pieces(self) -> Iterator[bytes]:
        """See ``messages.Audio``. Raises InvalidRequest where the file is damaged, TooLarge beyond the limit."""
        from edgeserve.audio import decode

        return decode.pieces(self.data, self.max_seconds, self.param)


def check_audio(data: bytes, max_seconds: float, param: str = "audio") -> Clip:
    """The clip, once its container, its length and its first samples have been looked at; blocks for a second or
    so an hour of sound. Raises UnsupportedMedia, TooLarge, and InvalidRequest for a file that was cut off."""
    from edgeserve.audio import decode

    if not data:
        raise UnsupportedMedia(f"{param} is empty", param=param)
    return Clip(data, max_seconds, param, decode.check(data, max_seconds, param))
