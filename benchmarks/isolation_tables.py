"""The comparison of process host and thread host as tables, a picture and a page."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import report
from benchmarks.isolation_memory import STATES, Life
from benchmarks.isolation_pairs import HEADER, SIDES, Figure, Pairs, Row
from benchmarks.isolation_speed import CHAT, CLIENTS, FAKES, FILES, PACE, PACED_TOKENS
from benchmarks.isolation_worker import DEATHS, STEPS

from edgeserve.jobs import JOBS

NAME = "isolation"


@dataclass(frozen=True, slots=True)
class Results:
    """``chats``, ``steps`` and ``deaths`` by size of the model; ``lives`` by isolation. ``loads`` of the machine before
    and after, over a minute. ``models`` in words, by size."""

    models: Mapping[str, str]
    chats: Mapping[str, Pairs]
    files: Pairs
    steps: Mapping[str, Pairs]
    deaths: Mapping[str, Pairs]
    fakes: Pairs
    lives: Mapping[str, Life]
    loads: tuple[float, float]
    cores: int


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    note: str
    rows: Sequence[Row]


BOUNDS = (
    "What bounds it: a token of a worker wakes two threads of the server instead of one, and costs 150 to 200 µs on "
    "each after a pause, when nothing of them is in the caches; without pauses, 12 to 20 µs in all. For a model with "
    "30 tokens/s that is 1% of one core. Each way of a request and its first token is a wake-up, too: 0.6 ms for its "
    "preparation and 3 for its first token, measured at the engine. Where other programs want the cores, each of "
    "these waits for its turn. On four quiet cores with as many threads of the model (2026-11-23) one stream made "
    "0.87 of the thread host's tokens/s with the small model (middle half 0.70 to 1.26) and 0.88 at 1.1 B (0.83 to "
    "1.10), eight streams 0.94 at 1.1 B, and the first token at 1.1 B came 3.8 ms later. Of a warm chat worker's 36 "
    "MB, the vocabulary and llama.cpp's tables take 16 to 18, in the serving process as well; two engines on one "
    "model share them only there. A fresh interpreter spends its time on imports "
    "of 230 modules, 90 of them Python's own."
)


def sections(results: Results) -> Iterator[Section]:
    for size, pairs in results.chats.items():
        yield Section(f"Chat, {size}", f"{results.models[size]}. {NOTES['chat']}", _rows(pairs, CHAT))
    yield Section("Pictures and sound", NOTES["files"], _rows(results.files, FILES))
    for size, pairs in results.steps.items():
        rows = [*_rows(pairs, STEPS), *_rows(results.deaths[size], DEATHS)]
        yield Section(f"The life of a worker, {size}", NOTES["life"], rows)
    yield Section("Without a runtime", NOTES["fakes"], _rows(results.fakes, FAKES))


STEPS_DOWN = (
    "As the server expected and found them, each for the first time. The first step of an engine in a process also "
    "returns clean pages of its runtime's libraries, such as 17 MB of ONNX Runtime. The server expects them from then "
    "on ([later steps](memory_scenarios.md#steps-down))."
)
NOTES = {
    "chat": (
        "Both servers run side by side and answer in turns, streamed. Of 8 clients, 4 wait for a slot. The first token "
        "counts from the request, connecting included."
    ),
    "files": 'Sound and pictures are decoded in children of their own under `isolation = "process"`.',
    "life": (
        "The engine's steps, without HTTP. The thread host loads the runtime's library once, before the first pair; "
        "each worker loads it anew. A worker is ready when its first frame has come. With the thread host, a runtime "
        "that dies takes the server with it."
    ),
    "fakes": (
        "The engine takes no time (`engines/fake/chat.py`). Processor time is that of server and worker together; "
        f"paced, each stream gets a token every {1000 * PACE:.0f} ms, so that every thread sleeps in between."
    ),
}


def _rows(pairs: Pairs, figures: Mapping[str, Figure]) -> list[Row]:
    return list(pairs.rows(figures))


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """MB of Pss of all processes."""

    what: str
    thread: float
    process: float
    target: float | None
    parts: str

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.process <= self.target

    def cells(self) -> list[str]:
        target = "" if self.target is None else f"≤ {self.target:g}"
        met = {None: "", True: "yes", False: "**no**"}[self.met]
        return [self.what, f"{self.thread:.0f}", f"{self.process:.0f}", target, met, self.parts]


def memory_rows(results: Results) -> list[MemoryRow]:
    rows = []
    for key, state in STATES.items():
        thread, process = (results.lives[side].moments[key] for side in SIDES)
        parts = ", ".join(f"{name.removeprefix('edgeserve: ')} {size:.0f}" for name, size in process.processes.items())
        rows.append(MemoryRow(state.name, thread.memory.pss, process.memory.pss, state.target, parts))
    return rows


def missed(results: Results) -> list[str]:
    """The targets that were not met, in words."""
    found = [f"{one.title}: {row.figure.what}" for one in sections(results) for row in one.rows if row.met is False]
    return [*found, *(f"Memory: {row.what}" for row in memory_rows(results) if row.met is False)]


def document(results: Results) -> str:
    """The body of docs/benchmarks/isolation.md."""
    before, after = results.loads
    head = (
        f"Load of the machine before and after: {before:.1f} and {after:.1f} on {results.cores} cores; one or two of "
        'it are the benchmark\'s own by then. `isolation = "process"` against `isolation = "thread"`: compared '
        "within pairs, of which the table gives the median and the middle half."
    )
    parts = [head, BOUNDS, f"![isolation]({NAME}.png)"]
    for one in sections(results):
        parts.append(f"## {one.title}\n\n{one.note}\n\n{report.table(HEADER, [row.cells() for row in one.rows])}")
    header = ["four engines configured", *(f"{side}, MB" for side in SIDES), "target", "met", "processes, MB"]
    rows = report.table(header, [row.cells() for row in memory_rows(results)])
    parts.append(f"## Memory\n\nProportional set size of all processes, each side alone on the machine.\n\n{rows}")
    parts.append(f"### Steps down\n\n{STEPS_DOWN}\n\n{_steps(results)}")
    return "\n\n".join(parts)


def _steps(results: Results) -> str:
    rows = []
    for side in SIDES:
        told = sorted(results.lives[side].steps, key=lambda one: (JOBS.index(one.job), one.action))
        for (job, action), group in itertools.groupby(told, key=lambda one: (one.job, one.action)):
            mine = list(group)
            expected, freed = (statistics.median(getattr(one, part) for one in mine) for part in ("expected", "freed"))
            share = f"{freed / expected:.0%}" if expected else "–"
            rows.append([f"{job} {action}", side, f"{expected:.1f}", f"{freed:.1f}", share])
    return report.table(["step", "isolation", "expected MB", "freed MB", "share"], rows)


def draw(results: Results) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(16, 3.6))
    rates = {
        f"{size}\n{one}": _rows(pairs, {f"rate {one}": CHAT[f"rate {one}"]})[0].compared
        for size, pairs in results.chats.items()
        for one in CLIENTS
    }
    _boxes(axes[0], rates, 0.98, "tokens/s, process / thread, by clients")
    firsts = {"no runtime": _rows(results.fakes, {"fake first": FAKES["fake first"]})[0].compared}
    firsts |= {size: _rows(pairs, {"first": CHAT["first"]})[0].compared for size, pairs in results.chats.items()}
    _boxes(axes[1], firsts, 3.0, "first token, process - thread, ms")
    rows = memory_rows(results)
    _bars(axes[2], list(STATES), rows, "Pss of all processes, MB")
    for place, row in enumerate(rows):
        if row.target is not None:
            axes[2].hlines(row.target, place - 0.2, place + 0.6, color="tab:red", linestyle="--")
    paced = _rows(results.fakes, {f"paced {one}": FAKES[f"paced {one}"] for one in PACED_TOKENS})
    _bars(
        axes[3],
        [f"{one} streams" for one in PACED_TOKENS],
        [_medians(row) for row in paced],
        "µs of processor a token, paced",
    )
    axes[3].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(report.picture(NAME), dpi=120)


@dataclass(frozen=True, slots=True)
class _Bar:
    thread: float
    process: float


def _medians(row: Row) -> _Bar:
    return _Bar(statistics.median(row.thread), statistics.median(row.process))


def _boxes(axis: Any, values: Mapping[str, Sequence[float]], target: float, title: str) -> None:
    axis.boxplot(list(values.values()), whis=(0, 100), widths=0.5)
    axis.set_xticks(range(1, len(values) + 1), list(values))
    axis.axhline(target, color="tab:red", linestyle="--")
    _finish(axis, title)


def _bars(axis: Any, names: Sequence[str], rows: Sequence[MemoryRow | _Bar], title: str) -> None:
    for number, side in enumerate(SIDES):
        heights = [getattr(row, side) for row in rows]
        drawn = axis.bar([place + 0.38 * number for place in range(len(rows))], heights, width=0.36, label=side)
        axis.bar_label(drawn, fmt="%.0f", fontsize=7)
    axis.set_xticks([place + 0.19 for place in range(len(rows))], list(names))
    _finish(axis, title)


def _finish(axis: Any, title: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
