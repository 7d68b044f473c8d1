"""The picture of the memory scenarios: the timeline above, the four scenarios and the comparison below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.memory_tables import IDLE_MB, Results
from benchmarks.sampling import Record
from benchmarks.scenario import Run

ANONYMOUS, FILE, MARK = "#4c72b0", "#a6c4e5", "#555555"


def draw(results: Results, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(15, 9))
    grid = figure.add_gridspec(2, len(results.scenarios) + 1, height_ratios=(1.25, 1), hspace=0.32, wspace=0.28)
    top = figure.add_subplot(grid[0, :])
    _timeline(top, results.record)
    first: Any = None
    for column, one in enumerate(results.scenarios):
        axis = figure.add_subplot(grid[1, column], sharey=first)
        first = first or axis
        _scenario(axis, one)
    _comparison(figure.add_subplot(grid[1, len(results.scenarios)], sharey=first), results.comparison)
    first.set_ylabel("MB")
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel("seconds")
        axis.set_ylim(bottom=0)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


def _stack(axis: Any, record: Record) -> None:
    times = [one.at for one in record.samples]
    parts = [[getattr(one.memory, part) for one in record.samples] for part in ("anonymous", "file")]
    axis.stackplot(times, *parts, labels=("anonymous", "file"), colors=(ANONYMOUS, FILE), linewidth=0)
    axis.set_xlim(0, times[-1])


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Each place, in rising order, moved up as little as it takes to stand ``gap`` from the one before."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap) if moved else place)
    return moved


def _timeline(axis: Any, record: Record) -> None:
    """Shade events that last; write their names above, apart from each other."""
    _stack(axis, record)
    top = max(one.memory.pss for one in record.samples)
    marks = sorted(record.marks, key=lambda one: one.at)
    places = spread([one.at for one in marks], gap=record.samples[-1].at / 55)
    for mark, place in zip(marks, places, strict=True):
        axis.axvspan(mark.at, mark.until, color=MARK, alpha=0.08, linewidth=0)
        axis.plot([mark.at, mark.at, place], [0, 1.04 * top, 1.14 * top], color=MARK, linewidth=0.7, linestyle=":")
        axis.text(place, 1.15 * top, mark.name, rotation=90, va="bottom", ha="center", fontsize=8, color=MARK)
    axis.set_ylim(0, 1.85 * top)
    axis.axhline(IDLE_MB, color="tab:red", linestyle="--", linewidth=1, label=f"idle target, {IDLE_MB:.0f} MB")
    axis.set_ylabel("Pss, MB")
    axis.set_title("startup and under load: chat, transcription and speech", loc="left")
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)


def _scenario(axis: Any, run: Run) -> None:
    _stack(axis, run.record)
    axis.set_title(run.scenario.name, fontsize=10)
    axis.axhline(IDLE_MB, color="tab:red", linestyle="--", linewidth=1)


def _comparison(axis: Any, runs: Mapping[str, Run]) -> None:
    for name, run in runs.items():
        samples = run.record.samples
        axis.plot([one.at for one in samples], [one.memory.pss for one in samples], label=name, linewidth=1.4)
    axis.set_title("naive, all lazy, hybrid", fontsize=10)
    axis.legend(loc="center right", frameon=False, fontsize=8)
