"""The text whose sound a client got, and the part of it that was heard until a time."""

from __future__ import annotations

from dataclasses import field

from edgeserve.dataclass import dataclass

PACE = 15.0
"""Characters of English said in a second, for a piece whose sound was cut so that its length is unknown."""


@dataclass(slots=True)
class Piece:
    """Text, seconds of its sound so far, and whether that is all of its sound."""

    text: str
    seconds: float = 0.0
    is_whole: bool = False

    def share(self, seconds: float) -> int:
        """Characters heard in the first seconds."""
        heard = min(seconds, self.seconds)
        if self.is_whole and self.seconds:
            return int(len(self.text) * (heard / self.seconds))
        return min(len(self.text), int(PACE * heard))


@dataclass(slots=True)
class Spoken:
    """The speech of one answer, piece by piece."""

    pieces: list[Piece] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(one.text for one in self.pieces)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.pieces)

    def begin(self, text: str) -> None:
        """The sound of the next piece follows."""
        self.pieces.append(Piece(text))

    def add(self, seconds: float) -> None:
        """More sound of the latest piece."""
        self.pieces[-1].seconds += seconds

    def finish(self) -> None:
        """The latest piece has all its sound."""
        self.pieces[-1].is_whole = True

    def until(self, seconds: float) -> str:
        """The text heard in the first seconds, cut behind a whole word."""
        heard = ""
        for one in self.pieces:
            if one.is_whole and seconds >= one.seconds:
                heard, seconds = heard + one.text, seconds - one.seconds
                continue
            share = one.share(seconds)
            begun = one.text[:share]
            inside = one.text[share : share + 1].strip() and begun[-1:].strip()
            return heard + (begun[: begun.rfind(" ") + 1] if inside else begun)
        return heard

    def cut(self, seconds: float) -> None:
        """Forget what came after."""
        kept = self.until(seconds)
        self.pieces = [Piece(kept, min(seconds, self.seconds), is_whole=True)]
