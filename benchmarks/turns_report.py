"""The figures of ``benchmarks.turns``: waits against the work and switches ahead, and the parts of a switch."""

from __future__ import annotations

import datetime
import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.streams import percentile

CLIMBED = re.compile(r"(?P<name>\S+) went from (?P<rung>\w+) to HOT in (?P<seconds>[\d.]+) s")
MOVED = re.compile(r"(Offloaded|Unloaded) [^:]+:(?P<name>\S+) from")
NAMES = {"whisper-tiny.en": "asr", "hibari": "tts"}
"""Models whose name is not the one that requests use."""
COLOURS = {"large": "#4c72b0", "small": "#a6c4e5", "asr": "#55a868", "tts": "#c44e52"}
TARGET_SHARE = 2.0
"""Largest p95 of the waits, as a multiple of the p95 of the work and the switches ahead."""
TARGET_SWITCH = 1.5
"""Seconds of a switch beside reading the weights."""
CHUNK = 8 << 20


@dataclass(frozen=True, slots=True)
class Switch:
    """One model makes way for another. ``clear``: its way was clear, so that it could begin; ``hot``: its end.

    ``climb``: seconds of the way up in it. Seconds on the wall clock.
    """

    model: str
    clear: float
    hot: float
    climb: float

    @property
    def seconds(self) -> float:
        return self.hot - self.clear


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the benchmark.

    Fields:
        asked  as ``benchmarks.turns.Asked``
        alone  seconds to the first byte of a hot model that nobody else asks
        lines  of the log, since the start of the server
        reads  seconds to read the file of a model from the disk
        load   of the machine over the minute before
    """

    where: str
    seconds: float
    asked: Sequence[Any]
    alone: Mapping[str, float]
    lines: Sequence[Mapping[str, Any]]
    began: float
    reads: Mapping[str, float]
    load: float


def page_in(path: Path) -> float:
    """Seconds to read a file that is not in the page cache."""
    with path.open("rb", buffering=0) as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started = time.perf_counter()
        while file.read(CHUNK):
            pass
        return time.perf_counter() - started


def switches(run: Run) -> list[Switch]:
    """Ways up for which other models stepped down. The way is clear once the last answer there has ended, and a
    request is there."""
    found, left = list[Switch](), set[str]()
    for line in run.lines:
        if moved := MOVED.search(line["msg"]):
            left.add(_id(moved["name"]))
        if (climbed := _climb(line)) is None:
            continue
        at, model, climb = climbed
        if left and at >= run.began:
            ends = [one.end for one in run.asked if one.model in left and one.end <= at - climb + 0.005]
            sent = [one.sent for one in run.asked if one.model == model and one.sent <= at <= one.first]
            clear = max([*ends, min(sent, default=at - climb)])
            found.append(Switch(model, min(clear, at - climb), at, climb))
        left.clear()
    return found


def ahead(run: Run, done: Sequence[Switch]) -> Iterator[tuple[float, float]]:
    """For each answer its wait, and the seconds of work and switches ahead of it.

    Ahead are the answers to requests that were sent before, and every switch meanwhile. Both include the seconds to the
    first byte that the request takes alone.
    """
    good = [one for one in run.asked if one.status == 200]
    began = [(_began(run, one), one) for one in good]
    for one in good:
        spans = [(max(at, one.sent), other.end) for at, other in began if other.sent < one.sent < other.end]
        spans += [(max(switch.clear, one.sent), switch.hot) for switch in done]
        own = run.alone[one.model]
        yield one.first - one.sent, own + _covered(spans, one.first)


def _began(run: Run, one: Any) -> float:
    """The time from which the model was at work for a request, or for those before it in the model's queue."""
    climbs = [climb for line in run.lines if (climb := _climb(line))]
    return max([one.sent, *(at for at, model, _ in climbs if model == one.model and at <= one.first)])


def _climb(line: Mapping[str, Any]) -> tuple[float, str, float] | None:
    """Time of a way up to hot, its model, and its seconds; None for a line about something else."""
    climbed = CLIMBED.search(line["msg"])
    return (_seconds(line["ts"]), _id(climbed["name"]), float(climbed["seconds"])) if climbed else None


def _id(name: str) -> str:
    return NAMES.get(name, name)


def _covered(spans: Iterable[tuple[float, float]], until: float) -> float:
    total, at = 0.0, 0.0
    for start, end in sorted(spans):
        start, end = max(start, at), min(end, until)
        if end > start:
            total, at = total + end - start, end
    return total


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def write(run: Run, *, trial: bool) -> int:
    """Print the tables, and write the page; the log instead for a ``trial``. Returns the exit code."""
    done = switches(run)
    waits = list(ahead(run, done))
    refused = [one for one in run.asked if one.status not in (200, 507)]
    share = percentile([one for one, _ in waits], 0.95) / percentile([one for _, one in waits], 0.95)
    above = [one.seconds - run.reads.get(one.model, 0.0) for one in done] or [0.0]
    median = percentile([one.seconds for one in done] or [0.0], 0.5)
    tables = [_requests(run), _switches(run, done)]
    verdict = [
        f"Requests refused: {len(refused)} of {len(run.asked)}.",
        f"p95 of the waits: {share:.2f} × the p95 of the work and the switches ahead (target {TARGET_SHARE:g}).",
        f"Switches: {len(done)}; median {median:.2f} s; beside reading the weights at most {max(above):.2f} s, "
        f"95% within {percentile(above, 0.95):.2f} s (target {TARGET_SWITCH:g} s).",
    ]
    print(*tables, *verdict, sep="\n")
    if trial:
        print(*(f"{_seconds(line['ts']) - run.began:8.3f} {line['msg']}" for line in run.lines), sep="\n")
    else:
        _page(run, done, tables, verdict)
    met = not refused and share <= TARGET_SHARE and percentile(above, 0.95) <= TARGET_SWITCH
    print("target met" if met else "TARGET MISSED")
    return 0 if met else 1


def _requests(run: Run) -> str:
    rows = []
    for model in COLOURS:
        mine = [one for one in run.asked if one.model == model]
        counts = Counter(one.status for one in mine)
        waits = [one.first - one.sent for one in mine if one.status == 200] or [0.0]
        other = len(mine) - counts[200] - counts[503] - counts[507]
        cells = [str(counts[200]), str(counts[503]), str(counts[507]), str(other), f"{run.alone[model]:.2f} s"]
        rows.append([model, *cells, *(f"{percentile(waits, at):.1f} s" for at in (0.5, 0.95, 1.0))])
    header = ("model", "200", "503", "507", "other", "first byte alone", "median", "p95", "longest")
    return report.table(header, rows)


def _switches(run: Run, done: Sequence[Switch]) -> str:
    rows = []
    for model in COLOURS:
        mine = [one for one in done if one.model == model]
        if mine:
            totals, climbs = [one.seconds for one in mine], [one.climb for one in mine]
            before = [one.seconds - one.climb for one in mine]
            cells = [f"{percentile(values, at):.2f} s" for values in (totals, before, climbs) for at in (0.5, 0.95)]
            read = run.reads.get(model)
            rows.append([model, str(len(mine)), *cells, f"{read:.2f} s" if read is not None else "–"])
    header = (
        "to",
        "switches",
        "median",
        "p95",
        "step down: median",
        "p95",
        "way up: median",
        "p95",
        "reading the file",
    )
    return report.table(header, rows)


def _page(run: Run, done: Sequence[Switch], tables: Sequence[str], verdict: Sequence[str]) -> None:
    from benchmarks.turns import CLIENTS

    clients = ", ".join(f"{count} {model}" for model, count in CLIENTS.items())
    body = [
        f"Two language models of 1.1 and 0.6 GB with random weights, Whisper tiny and a voice, in {run.where}. "
        f"Clients: {clients}. Each asks again 0.5 to 4 s after its answer, for {run.seconds:g} s. Default settings.",
        f"Load of the machine before the run: {run.load:.1f} on {os.cpu_count()} cores.",
        "Time to the first byte:",
        tables[0],
        "A switch begins when the last answer in the way has ended, and ends when the next model is hot:",
        tables[1],
        "\n".join(f"- {one}" for one in verdict),
        "The work ahead of a request: answers to requests that were sent before it, the switches meanwhile, and the "
        "time to its own first byte.",
        "![who is served when](turns.png)",
    ]
    _draw(run, done)
    print(report.write("turns", "Turns of models that do not fit together", "\n\n".join(body)))


def _draw(run: Run, done: Sequence[Switch]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(13, 4.5))
    lanes = [(model, number) for model in COLOURS for number in range(_lanes(run, model))]
    free: dict[tuple[str, int], float] = {}
    for one in sorted(run.asked, key=lambda one: one.sent):
        lane = next((one.model, at) for at in itertools.count() if free.get((one.model, at), 0.0) <= one.sent)
        free[lane] = one.end
        row = lanes.index(lane)
        axis.barh(row, one.first - one.sent, left=one.sent - run.began, height=0.25, color="0.8")
        axis.barh(row, one.end - one.first, left=one.first - run.began, height=0.7, color=COLOURS[one.model])
    for switch in done:
        axis.axvspan(switch.clear - run.began, switch.hot - run.began, color="0.3", alpha=0.25, linewidth=0)
    axis.set_yticks(range(len(lanes)), [model if not number else "" for model, number in lanes])
    axis.set_xlabel("seconds; thin: waiting, thick: the answer, shaded: a switch")
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(report.picture("turns"), dpi=110)
    pyplot.close(figure)


def _lanes(run: Run, model: str) -> int:
    """Most requests of a model at a time."""
    mine = [one for one in run.asked if one.model == model]
    return max((sum(two.sent <= one.sent < two.end for two in mine) for one in mine), default=0)
