"""The memory scenarios judged against their targets and written as tables. Pure functions."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.report import table
from benchmarks.sampling import Record
from benchmarks.scenario import Pace, Run
from benchmarks.targets import WARM_UP, Climb, Cycle, Estimate, Step, drift, of, share_returned
from benchmarks.timeline import Moment

from edgeserve.jobs import JOBS, Job

IDLE_MB, DRIFT_MB, RETURNED, CLIMB_MS, ESTIMATE, LEARNED = 90.0, 2.0, 0.95, 150.0, 0.15, 0.05
"""The targets."""


@dataclass(frozen=True, slots=True)
class Results:
    """``comparison`` by approach; ``estimates`` of a device new to its models, ``learned`` of its second start."""

    pace: Pace
    record: Record
    moments: Sequence[Moment]
    scenarios: Sequence[Run]
    comparison: Mapping[str, Run]
    estimates: Sequence[Estimate]
    learned: Sequence[Estimate]
    cycles: Sequence[Cycle]
    steps: Sequence[Step]
    climbs: Sequence[Climb]


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    target: str
    measured: str
    met: bool


def judge(results: Results) -> list[Check]:
    return [*_memory_checks(results), *_climb_checks(results.climbs), *_estimate_checks(results)]


def _memory_checks(results: Results) -> Iterator[Check]:
    idle = results.comparison["hybrid"].idle
    what, measured = "all engines used, then idle: Pss", f"{idle.pss:.0f} MB (Rss {idle.rss:.0f})"
    yield Check(what, f"≤ {IDLE_MB:.0f} MB", measured, idle.pss <= IDLE_MB)
    for job in JOBS:
        share = share_returned(results.cycles, job)
        yield Check(f"{job}: anonymous memory returned", f"≥ {RETURNED:.0%}", f"{share:.0%}", share >= RETURNED)
    moved, count = drift(results.cycles), len(of(results.cycles, "llm"))
    yield Check(f"drift over {count} cycles", f"≤ {DRIFT_MB:.0f} MB", f"{moved:+.1f} MB", moved <= DRIFT_MB)


def _climb_checks(climbs: Sequence[Climb]) -> Iterator[Check]:
    for job in JOBS:
        rung, extra = above_hot(climbs, job)
        what = f"{job}: first {FIRST[job]} from {rung}, above hot"
        yield Check(what, f"≤ {CLIMB_MS:.0f} ms", f"{1000 * extra:.0f} ms", 1000 * extra <= CLIMB_MS)


def _estimate_checks(results: Results) -> Iterator[Check]:
    for found, what, limit in ((results.estimates, "estimate", ESTIMATE), (results.learned, "learned", LEARNED)):
        for one in found:
            met = abs(one.error) <= limit
            yield Check(f"{one.job}: {what} against measured", f"± {limit:.0%}", f"{one.error:+.0%}", met)


FIRST: Mapping[Job, str] = {"llm": "token", "vision": "token", "asr": "text", "tts": "sound"}


def above_hot(climbs: Sequence[Climb], job: Job) -> tuple[str, float]:
    """The rung that an idle engine was found on, and the median seconds that it cost above hot."""
    mine = [one for one in climbs if one.job == job]
    rung = next(one.rung for one in mine if one.rung != "hot")
    low, hot = (statistics.median(one.seconds for one in mine if one.rung == name) for name in (rung, "hot"))
    return rung, low - hot


def document(results: Results, models: Mapping[Job, str]) -> str:
    """The body of docs/benchmarks/memory_scenarios.md."""
    sections = {
        "Targets": verdicts(judge(results)),
        "Timeline": _timeline(results.moments),
        "Scenarios": _scenarios(results.scenarios),
        "Naive, all lazy, hybrid": _comparison(results.comparison),
        **moves(results.cycles, results.steps, results.climbs),
        "Estimates": _estimates([*results.estimates, *results.learned]),
    }
    residency = ", ".join(f"{key} = {value:g}" for key, value in results.pace.residency.items())
    head = (
        f"Models: {', '.join(f'{job} {name}' for job, name in models.items())}. Sampled every 200 ms from outside, "
        f"in MB of Pss. One minute of the reference takes {results.pace.minute:g} s, by [residency] alone: {residency}."
        "\n\n![memory over time](memory_scenarios.png)"
    )
    return "\n\n".join([head, *(f"## {name}\n\n{NOTES.get(name, '')}{text}" for name, text in sections.items())])


def moves(cycles: Sequence[Cycle], steps: Sequence[Step], climbs: Sequence[Climb]) -> dict[str, str]:
    """The sections about steps down and the way back up."""
    return {
        "Steps down": _cycles(cycles) + "\n\n" + _steps(steps),
        "First token, text or sound": _climbs(climbs),
    }


NOTES = {
    "Timeline": "The reference serves models ten times larger; what is compared is the shape.\n\n",
    "Scenarios": "Each request alone, then all at once (the peak), then five minutes of idleness at this pace.\n\n",
    "Naive, all lazy, hybrid": (
        "The same requests as in scenario 3. Naive: `preload = true` and `pinned = true` for every engine. All lazy: "
        "what startup maps is closed through `POST /memory/evict` before the first sample and again when idle, since "
        "no setting does that; llama.cpp's library stays loaded. Hybrid: the defaults. Times are of each engine's "
        "first request.\n\n"
    ),
    "Steps down": (
        f"Each engine used and left alone until it is down, one after the other. Anonymous memory; the first {WARM_UP} "
        "cycles do not count. Below, what the server itself expected and found at every step (`GET /memory/evictions`, "
        "mapped weights included).\n\n"
    ),
    "First token, text or sound": "Median of requests with a prompt not asked before; transcriptions answer whole.\n\n",
    "Estimates": (
        "Each engine alone, from cold: before its first load on this device, and in a second server that reads the "
        "learned peaks. *Measured* is what the server books; *grew* is the whole process seen from outside, with "
        "what a runtime loads once (its library, its modules).\n\n"
    ),
}


def verdicts(checks: Sequence[Check]) -> str:
    rows = [[one.what, one.target, one.measured, "met" if one.met else "**missed**"] for one in checks]
    return table(["target", "wanted", "measured", ""], rows)


def _timeline(moments: Sequence[Moment]) -> str:
    rows = []
    for one in moments:
        memory = one.memory
        shares = (f"{size:.0f}" for size in (memory.pss, memory.anonymous, memory.file))
        rows.append([one.line.event, f"{one.line.at}", one.line.memory, f"{one.at:.1f}", *shares])
    return table(["event", "reference s", "reference", "measured s", "Pss MB", "anonymous", "file"], rows)


def _scenarios(runs: Sequence[Run]) -> str:
    rows = []
    for one in runs:
        sizes = [f"{memory.pss:.0f}" for memory in (one.start, one.peak, one.idle)]
        rows.append([one.scenario.name, *sizes, one.scenario.reference_peak, one.scenario.reference_idle])
    return table(["scenario", "start MB", "peak MB", "idle MB", "reference: peak", "idle"], rows)


def _comparison(runs: Mapping[str, Run]) -> str:
    reference = {"naive": "5.5 GB, 5.5 GB", "all lazy": "50 MB, 50 MB", "hybrid": "50 MB, 50 MB"}
    rows = []
    for name, one in runs.items():
        firsts = [f"{one.firsts[job]:.2f}" for job in JOBS]
        rows.append([name, f"{one.start.pss:.0f}", f"{one.idle.pss:.0f}", *firsts, reference[name]])
    named = [f"{job}: first {FIRST[job]} s" for job in JOBS]
    return table(["approach", "start MB", "idle MB", *named, "reference: start, idle"], rows)


def _cycles(cycles: Sequence[Cycle]) -> str:
    rows = []
    for job in JOBS:
        mine = of(cycles, job)[WARM_UP:]
        took = statistics.median(one.took for one in mine)
        worst = min(one.returned for one in mine)
        row = (f"{took:.1f}", f"{share_returned(cycles, job):.1%}", f"{worst:.1%}", f"{drift(cycles, job):+.1f}")
        rows.append([job, *row])
    return table(["engine", "took MB", "returned, median", "worst", "drift MB"], rows)


def _steps(steps: Sequence[Step]) -> str:
    rows = []
    for (job, action), group in itertools.groupby(
        sorted(steps, key=lambda one: (JOBS.index(one.job), one.action)), key=lambda one: (one.job, one.action)
    ):
        mine = list(group)[WARM_UP:]
        if mine:
            expected, freed = (statistics.median(getattr(one, part) for one in mine) for part in ("expected", "freed"))
            rows.append([f"{job} {action}", str(len(mine)), f"{expected:.1f}", f"{freed:.1f}", _share(freed, expected)])
    return table(["step", "times", "expected_mb, median", "memory_freed_mb, median", "share"], rows)


def _climbs(climbs: Sequence[Climb]) -> str:
    rows = []
    for job in JOBS:
        rung, extra = above_hot(climbs, job)
        hot = statistics.median(one.seconds for one in climbs if one.job == job and one.rung == "hot")
        rows.append([job, FIRST[job], rung, *(f"{1000 * one:.0f}" for one in (hot, hot + extra, extra))])
    return table(["engine", "first", "idle rung", "hot ms", "from idle ms", "above hot ms"], rows)


def _estimates(found: Sequence[Estimate]) -> str:
    rows = [
        [
            one.job,
            one.origin,
            *(f"{size:.0f}" for size in (one.expected, one.measured)),
            f"{one.error:+.0%}",
            f"{one.grew:.0f}",
        ]
        for one in found
    ]
    return table(["engine", "from", "estimated MB", "measured MB", "off by", "process grew MB"], rows)


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "–"
