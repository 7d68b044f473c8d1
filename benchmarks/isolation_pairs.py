"""Figures of two servers in pairs, one beside the other, so that a slow minute of the machine meets both.

The comparison is made within a pair. The table shows its median and the middle half of all pairs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

SIDES = ("thread", "process")
"""Values of ``isolation``; comparisons are of the second against the first."""
Compare = Literal["ratio", "difference", "alone"]


@dataclass(frozen=True, slots=True)
class Figure:
    """``target`` of the comparison's median: at least that where ``more`` is better, else at most.

    "alone": the target is for the figure of the process host itself, and the thread host may have none.
    """

    what: str
    compare: Compare = "ratio"
    target: float | None = None
    more: bool = False
    digits: int = 0


Figures = Mapping[str, float]
"""By the key of a figure."""
Scene = Callable[[str, int], Figures]
"""Takes a side and a round."""


@dataclass(slots=True)
class Pairs:
    """Figures by key and side; equal places make a pair."""

    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, side: str, figures: Figures) -> None:
        for key, value in figures.items():
            self.figures.setdefault(key, {one: [] for one in SIDES})[side].append(value)

    def measure(self, scene: Scene, rounds: int) -> None:
        """Ask both sides ``rounds`` times after a round that warms up. The side that comes first alternates."""
        for turn in range(rounds + 1):
            for side in SIDES[:: 1 if turn % 2 else -1]:
                figures = scene(side, turn)
                if turn:
                    self.add(side, figures)

    def rows(self, figures: Mapping[str, Figure]) -> Iterator[Row]:
        """Rows of the figures that were measured, in the order of ``figures``."""
        for key, figure in figures.items():
            if key in self.figures:
                yield Row(figure, *(tuple(self.figures[key][side]) for side in SIDES))


@dataclass(frozen=True, slots=True)
class Row:
    figure: Figure
    thread: Sequence[float]
    process: Sequence[float]

    @property
    def compared(self) -> list[float]:
        """One value a pair; the figures of the process host where they stand alone."""
        if self.figure.compare == "alone":
            return list(self.process)
        pairs = zip(self.process, self.thread, strict=True)
        return [one / other if self.figure.compare == "ratio" else one - other for one, other in pairs]

    @property
    def median(self) -> float:
        return statistics.median(self.compared)

    @property
    def middle(self) -> tuple[float, float]:
        """The quartiles."""
        values = self.compared
        if len(values) < 2:
            return values[0], values[0]
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return low, high

    @property
    def met(self) -> bool | None:
        """None where there is no target."""
        if self.figure.target is None:
            return None
        return self.median >= self.figure.target if self.figure.more else self.median <= self.figure.target

    @property
    def sign(self) -> str:
        return {"ratio": "×", "difference": "", "alone": ""}[self.figure.compare]

    def cells(self) -> list[str]:
        """Texts of the table: figure, medians of both, comparison, quartiles, target, met."""
        own = self.figure.digits
        digits = 3 if self.figure.compare == "ratio" else own
        show = f"+.{digits}f" if self.figure.compare == "difference" else f".{digits}f"
        low, high = self.middle
        compared = ["", ""]
        if self.figure.compare != "alone":
            compared[0] = f"{self.sign}{self.median:{show}}"
        if len(self.compared) > 1:
            compared[1] = f"{low:{show}} to {high:{show}}"
        target = ""
        if self.figure.target is not None:
            target = f"{'≥' if self.figure.more else '≤'} {self.figure.target:g}"
        thread = f"{statistics.median(self.thread):.{own}f}" if self.thread else "–"
        met = {None: "", True: "yes", False: "**no**"}[self.met]
        return [self.figure.what, thread, f"{statistics.median(self.process):.{own}f}", *compared, target, met]


HEADER = ("", *SIDES, "process / thread, or difference", "middle half of the pairs", "target", "met")
