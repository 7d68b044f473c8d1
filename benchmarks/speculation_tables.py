"""Pairs of measurements with guessed tokens and without, as a table, a picture and a page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import report

TARGETS = {"rewriting": 1.5, "extraction": 1.5, "code edits": 1.5, "free text": 0.98}
PEER_TARGETS = {"JSON schemas, beside llama-server": 1.3}


@dataclass(frozen=True, slots=True)
class Row:
    """Medians of both sides, and of the ratios of the pairs. ``met``: None where there is no target."""

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


@dataclass(slots=True)
class Pairs:
    """Rates of one model: ours with guessed tokens, and the other side, by the kind of work."""

    model: str
    drafted: int = 0
    accepted: int = 0
    pairs: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, kind: str, ours: float, other: float) -> None:
        self.pairs.setdefault(kind, []).append((ours, other))

    def rows(self) -> list[Row]:
        return [self._row(kind, found) for kind, found in self.pairs.items()]

    def _row(self, kind: str, pairs: Sequence[tuple[float, float]]) -> Row:
        ours, other = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratios = tuple(one / two for one, two in pairs)
        return Row(kind, ours, other, ratios, (TARGETS | PEER_TARGETS).get(kind))


def comparison(results: Sequence[Pairs]) -> str:
    header = ["", "with", "without, or the peer", "ratio", "least to most", "target", "met"]
    return report.table(header, [_cells(one.model, row) for one in results for row in one.rows()])


def _cells(model: str, row: Row) -> list[str]:
    target = "" if row.target is None else f"≥ {row.target:g}"
    met = {None: "", True: "yes", False: "no"}[row.met]
    spread = f"{min(row.ratios):.2f} to {max(row.ratios):.2f}"
    return [f"{model}: {row.kind}", f"{row.ours:.1f}", f"{row.other:.1f}", f"{row.ratio:.2f}", spread, target, met]


def write(results: Sequence[Pairs], rounds: int, threads: int) -> Path:
    drafts = "; ".join(f"{one.model} {one.drafted:,} and {one.accepted:,}" for one in results)
    body = [
        f"`python -m benchmarks.speculation`, {threads} threads, one client, {rounds} rounds after a first. Both "
        "sides take turns, and the other one comes first in every second round. The ratio is the median of the ratios "
        "of the pairs.",
        "**Texts**, in tokens a second from the first token to the last: the same engine with `speculation = "
        '"auto"` and `"off"`. The answers are written beforehand, as a good model would give them; the engine '
        "samples as usual and then takes the written token. So guesses come true as in real use, also in models "
        f"of random weights, which repeat nothing. Tokens drafted and accepted: {drafts}.",
        "**JSON schemas**, in characters a second over HTTP, ten schemas: each server answers in its own words, "
        "greedily.",
        comparison(results),
        "What bounds it: the gain is the tokens of a call by its cost. Where a call of eight takes four times as "
        "long as a call of one, the best draft doubles the speed. Reordered weights (`repack`) and more cores "
        "make larger calls cheaper.",
        "![the ratios](speculation.png)",
    ]
    return report.write("speculation", "Guessed tokens", "\n\n".join(body))


def draw(results: Sequence[Pairs]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(6.5 * len(results), 3.4), squeeze=False)
    for axis, one in zip(axes[0], results, strict=True):
        rows = one.rows()
        places = range(len(rows), 0, -1)
        drawn = axis.barh(list(places), [row.ratio for row in rows], color="tab:blue", height=0.6)
        axis.bar_label(drawn, fmt="%.2f", fontsize=8, padding=2)
        for place, row in zip(places, rows, strict=True):
            if row.target is not None:
                axis.plot([row.target] * 2, [place - 0.35, place + 0.35], color="black", linewidth=1.5)
        axis.axvline(1.0, color="grey", linewidth=0.8, linestyle=":")
        axis.set_yticks(list(places), [row.kind for row in rows], fontsize=8)
        axis.set_title(f"{one.model}: times the other side; bars at the targets", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(report.picture("speculation"), dpi=120)
