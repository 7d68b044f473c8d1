"""One run: calm, rest, chaos, rest, and the same answers as before."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos import events, judge, pulse, watch
from benchmarks.chaos.clients import Crowd
from benchmarks.chaos.events import Event
from benchmarks.chaos.hands import Hands, Happening
from benchmarks.chaos.house import Form, House, house
from benchmarks.chaos.pulse import Look, Pulse
from benchmarks.chaos.replies import Reply
from benchmarks.chaos.watch import Rest
from benchmarks.process import memory_of
from benchmarks.sampling import Record, Sampler

BELOW = 0
"""Stands for all processes below the server where the sampler wants a pid."""
STILL_MB = 0.5
"""Growth between two looks at a server that rests."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``seconds`` of chaos, ``calm`` seconds before it, ``gap`` mean seconds between two events, and ``patience``:
    seconds in which /v1/health must answer. ``alone``: wait until no fork server is left before the server rests."""

    seed: int
    seconds: float
    calm: float
    gap: float
    patience: float = 1.0
    alone: bool = True


@dataclass(slots=True)
class Seen:
    """All that a run has seen. Times in seconds since its start; the chaos lasts from ``start`` to ``end``."""

    plan: Plan
    start: float = 0.0
    end: float = 0.0
    replies: list[Reply] = field(default_factory=list)
    happened: list[Happening] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    rests: list[Rest] = field(default_factory=list)
    record: Record = field(default_factory=Record)
    kills: int = 0
    lacking: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    log: str = ""


def live(folder: Path, form: Form, plan: Plan) -> Seen:
    """The whole run. ``faults`` of what it returns are the violations."""
    seen = Seen(plan)
    with house(folder, form) as one:
        one.server.wait_healthy()
        seen.lacking = one.lacking
        with Sampler(one.server.pid, BELOW, interval=0.5, read=_reading(one)) as sampler:
            crowd = Crowd(
                one.server.url, form.asks, form.live, random.Random(plan.seed), lambda: sampler.now, form.limit
            )
            _before(crowd, plan, seen, one)
            _chaos(crowd, plan, seen, one, sampler)
            _after(crowd, seen, one)
        seen.record = sampler.record
        ran = one.server.process.poll() is None
        one.server.process.terminate()
        code = one.server.process.wait(60)
        left = len(one.marked())
        seen.log = one.log.read_text(errors="replace")
    seen.faults += _judged(seen, judge.Ended(code, left, ran))
    return seen


def _reading(one: House) -> Callable[[int], watch.Memory]:
    return lambda pid: memory_of(pid) if pid != BELOW else watch.memory(one)


def _before(crowd: Crowd, plan: Plan, seen: Seen, one: House) -> None:
    """Learn the right answers, let all kinds of clients in once, and see what the server holds at rest then."""
    asyncio.run(crowd.learn())
    until = crowd.clock() + plan.calm
    asyncio.run(crowd.stay(lambda: crowd.clock() < until))
    last: list[Rest] = []

    def still(found: Rest) -> bool:
        same = bool(last) and not found.more_than(last[-1], STILL_MB) and not last[-1].more_than(found, STILL_MB)
        last.append(found)
        return same and found.alone and not (plan.alone and found.forks)

    seen.rests.append(watch.rest(one, still))


def _chaos(crowd: Crowd, plan: Plan, seen: Seen, one: House, sampler: Sampler) -> None:
    seen.start = sampler.now
    hands = Hands(one, _later(seen.start, plan, one), lambda: sampler.now)
    seen.happened, seen.passed_over = hands.happened, hands.passed_over
    acting = threading.Thread(target=hands.run, name="hands")
    with Pulse(one.server.port, lambda: sampler.now) as beat:
        acting.start()
        until = seen.start + plan.seconds
        asyncio.run(crowd.stay(lambda: sampler.now < until or acting.is_alive()))
        acting.join()
    seen.end, seen.looks, seen.replies = sampler.now, beat.looks, crowd.replies
    seen.kills = hands.kills
    if hands.failures:
        raise hands.failures[0]


def _later(start: float, plan: Plan, one: House) -> Sequence[Event]:
    kinds = [kind for kind in events.KINDS if kind not in one.lacking]
    made = events.schedule(plan.seed, plan.seconds, one.form.jobs, kinds, plan.gap)
    return [Event(start + event.at, event.kind, event.job, event.seconds) for event in made]


def _after(crowd: Crowd, seen: Seen, one: House) -> None:
    """Everything is answered again as before, once the pauses after the deaths are over, and nothing is left over."""
    until = time.monotonic() + judge.LONGEST_PAUSE
    while True:
        try:
            asyncio.run(crowd.learn())
            break
        except RuntimeError as error:
            if "engine_restarting" not in str(error) or time.monotonic() > until:
                seen.faults.append(f"after the chaos: {error}")
                break
            time.sleep(1.0)
    before = seen.rests[0]

    def as_before(found: Rest) -> bool:
        return not found.more_than(before, judge.allowed(before)) and not (seen.plan.alone and found.forks)

    seen.rests.append(watch.rest(one, as_before))
    if (status := pulse.health(one.server.port)) != 200:
        seen.faults.append(f"the health at the end is {status}")


def _judged(seen: Seen, ended: judge.Ended) -> Iterator[str]:
    yield from judge.of_replies(seen.replies, seen.happened, judge.codes())
    yield from judge.of_health(seen.looks, seen.plan.patience)
    yield from judge.of_rest(*seen.rests)
    yield from judge.of_end(ended)
    yield from judge.of_log(seen.log)
