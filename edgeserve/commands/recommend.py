"""``edgeserve recommend``: the models of the catalogue that suit this machine, and those that run together."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from collections.abc import Iterator

from edgeserve.commands import Call
from edgeserve.fit.choice import Box, Judged
from edgeserve.fit.recommend import Advice, advise, calibrated
from edgeserve.fit.speed import Speed
from edgeserve.jobs import ALL_JOBS, INFO
from edgeserve.system.probe import Probe
from edgeserve.terminal import columns, human_size, table
from edgeserve.units import MB

SHOWN = 3
"""Models of a job that are shown without ``--all`` and ``--job``."""
HEADS = ("job", "model", "memory", "speed", "disk", "state")


def recommend(call: Call) -> int:
    """Print the advice; returns 1 when no model suits for any of the jobs."""
    config = call.config()
    store = call.store(config)
    policy = config.memory
    if call.args.memory:
        policy = dataclasses.replace(policy, override_memory_mb=call.args.memory)
    jobs = tuple(dict.fromkeys(call.args.job or ALL_JOBS))
    figures = calibrated(store, anew=call.args.calibrate, begin=announce)
    box = Box(Probe(override_mb=policy.override_memory_mb).read(), policy)
    if call.args.memory and box.readings.total < call.args.memory * MB:
        print(f"[INFO] this machine has {human_size(box.readings.total)}: the advice is for it", file=sys.stderr)
    advice = advise(store, box, figures, jobs)
    if call.args.json:
        print(json.dumps(advice.as_json(), indent=2))
    else:
        most = len(advice.judged) if call.args.all or call.args.job else SHOWN
        print("\n".join(render(advice, most, columns(sys.stdout))))
    return 0 if any(one.suits for one in advice.judged) else 1


def announce() -> None:
    """Tell that a measurement begins."""
    print("[INFO] measuring this machine once; close other programs for true figures", file=sys.stderr, flush=True)


def render(advice: Advice, most: int, width: int | None = None) -> Iterator[str]:
    """The advice in lines, with at most so many models a job, in a table of at most so many columns."""
    limit, rates = advice.box.budget, advice.calibration.rates
    yield f"{advice.calibration.processor}: models may take {human_size(limit.usable)} of memory."
    timed = f", timed with {advice.calibration.model}" if advice.calibration.model else ""
    yield f"It reads {human_size(rates.bandwidth)}/s and computes {rates.operations / 1e9:.0f} GFLOPS{timed}."
    yield ""
    rows, left = [], 0
    for _, group in itertools.groupby(advice.judged, key=lambda one: one.candidate.job):
        found = list(group)
        rows += [_row(one) for one in found[:most]]
        left += len(found[most:])
    yield table(HEADS, rows, width)
    yield "* the best of its job that fits, and is quick enough"
    if left:
        yield f"{left} more models: --all, or --job NAME"
    yield ""
    yield from _together(advice)


def _row(one: Judged) -> tuple[str, ...]:
    entry = one.candidate.entry
    state = "pulled" if one.candidate.pulled else "" if entry.verified else "unverified"
    return (
        one.candidate.job,
        f"{'*' if one.best else ' '} {entry.name}",
        human_size(one.candidate.amount.total),
        words(one.candidate.speed),
        human_size(entry.size_bytes),
        ", ".join(filter(None, (one.reason, state))),
    )


def words(speed: Speed | None) -> str:
    """A speed as people say it: "12 tokens/s", "3.4× real time"."""
    if speed is None:
        return "-"
    figure = f"{speed.answer:.1f}" if round(speed.answer, 1) < 10 else f"{speed.answer:.0f}"
    return f"{figure} tokens/s" if speed.unit == "tokens/s" else f"{figure}× real time"


def _together(advice: Advice) -> Iterator[str]:
    if not advice.together:
        yield "No model fits."
        return
    total = human_size(sum(one.amount.total for one in advice.together))
    yield f"All at once, one model a job, in {total}:"
    for one in advice.together:
        yield f"  {INFO[one.job].words:13} {one.entry.name}"
    if missing := [one.entry.name for one in advice.together if not one.pulled]:
        yield f"edgeserve pull {' '.join(missing)}"
