"""Pairs of measurements, ours and another side's, and the ratios of the pairs beside their targets.

A file may keep the pairs, a JSON line each. A benchmark that was stopped measures only the pairs that the file lacks.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import report


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rates of one moment; more is better.

    - ``subject``: a model, or the conditions of the run. ``kind``: of the work, as its target is named.
    - ``case``: the task of this kind. ``turn``: its round.
    - ``beside``: other figures of ours.
    """

    subject: str
    kind: str
    case: str
    turn: int
    ours: float
    other: float
    beside: Mapping[str, float] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str, str, int]:
        """The part that no other pair of a run has."""
        return self.subject, self.kind, self.case, self.turn


@dataclass(frozen=True, slots=True)
class Row:
    """Medians of both sides, and of the ratios of the pairs. ``met``: None where there is no target."""

    subject: str
    kind: str
    ours: float
    other: float
    ratios: tuple[float, ...]
    target: float | None

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.ratio >= self.target


class Pairs:
    """The pairs of a benchmark; those of the file ``path`` are there from the start.

    Raises ValueError, OSError for a file that holds something else.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.all = list(_read(path)) if path is not None and path.exists() else []

    def add(self, pair: Pair) -> None:
        self.all.append(pair)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(dataclasses.asdict(pair)) + "\n")

    def has(self, subject: str, kind: str, case: str, turn: int) -> bool:
        return (subject, kind, case, turn) in {one.place for one in self.all}

    def beside(self, subject: str, name: str) -> float:
        """The sum of a figure over all pairs of a subject."""
        return sum(one.beside.get(name, 0.0) for one in self.all if one.subject == subject)

    def rows(self, targets: Mapping[str, float]) -> list[Row]:
        """A row for each subject and kind, in the order in which they were measured."""
        found: dict[tuple[str, str], list[Pair]] = {}
        for pair in self.all:
            found.setdefault((pair.subject, pair.kind), []).append(pair)
        return [_row(pairs, targets.get(kind)) for (_, kind), pairs in found.items()]


def _read(path: Path) -> Iterator[Pair]:
    """The pairs of a file. A line that a killed run did not finish is removed from the file."""
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            yield Pair(**json.loads(line))
        except (ValueError, TypeError):
            raise ValueError(f"{path}, line {number}: this is no pair of measurements") from None


def _row(pairs: Sequence[Pair], target: float | None) -> Row:
    ours, other = (statistics.median(getattr(one, side) for one in pairs) for side in ("ours", "other"))
    ratios = tuple(one.ours / one.other for one in pairs)
    return Row(pairs[0].subject, pairs[0].kind, ours, other, ratios, target)


def comparison(rows: Sequence[Row], names: Sequence[str] = ("with", "without, or the peer")) -> str:
    """A table of the rows. ``names``: of both sides."""
    return report.table(["", *names, "ratio", "least to most", "target", "met"], map(_cells, rows))


def _cells(row: Row) -> list[str]:
    target = "" if row.target is None else f"≥ {row.target:g}"
    met = {None: "", True: "yes", False: "no"}[row.met]
    spread = f"{min(row.ratios):.2f} to {max(row.ratios):.2f}"
    return [
        f"{row.subject}: {row.kind}",
        f"{row.ours:.1f}",
        f"{row.other:.1f}",
        f"{row.ratio:.2f}",
        spread,
        target,
        met,
    ]


def verdict(rows: Sequence[Row]) -> int:
    """Print the targets that are missed. Returns the exit code: 1 where there are some."""
    missed = [f"{row.subject}: {row.kind}" for row in rows if row.met is False]
    print(f"TARGETS MISSED: {', '.join(missed)}" if missed else "targets met")
    return 1 if missed else 0
