"""The schedule of a run: what happens to whom and when, from a seed alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

HANG, KILL, SEGV, ABORT, STOP, FORKS = "hang", "kill", "segv", "abort", "stop", "forks"
CUT, REPLACE, NEIGHBOUR, LIMIT, DISK, MOVE = "cut file", "replaced file", "neighbour", "limit", "full disk", "move"
CLOCK, RELOAD = "clock", "reload"
KINDS = (HANG, KILL, SEGV, ABORT, STOP, FORKS, CUT, REPLACE, NEIGHBOUR, LIMIT, DISK, MOVE, CLOCK, RELOAD)
"""Kinds of events.

HANG       the worker is stopped until the server kills it
KILL, SEGV  SIGKILL and SIGSEGV to the worker
ABORT      the engine aborts by a word where it knows one, else by SIGABRT
STOP       the worker is stopped, and goes on after some seconds
FORKS      the fork servers are killed, and their children with them
CUT        the model's file is cut to its half, then whole again
REPLACE    the model's file is another one for some seconds
NEIGHBOUR  a process in the server's control group takes memory
LIMIT      the control group may have little more than it has
DISK       the disk of temporary files and saved states is full
MOVE       the engine is evicted and loaded by hand
CLOCK      the wall clock of the serving process jumps, and jumps back
RELOAD     the settings of an engine change and are read again, and later the old ones are
"""
OF_ALL = {FORKS, NEIGHBOUR, LIMIT, DISK, CLOCK}
"""Kinds that hit every engine."""
LASTS = {
    STOP: (1.0, 4.0),
    CUT: (1.0, 4.0),
    REPLACE: (1.0, 4.0),
    NEIGHBOUR: (2.0, 5.0),
    LIMIT: (2.0, 5.0),
    DISK: (2.0, 6.0),
    CLOCK: (1.0, 5.0),
    RELOAD: (2.0, 5.0),
}
"""Shortest and longest time in seconds; what is not here happens at once."""
OFTEN = {
    KILL: 4, SEGV: 2, ABORT: 2, STOP: 2, CUT: 2, REPLACE: 2,
    MOVE: 3, NEIGHBOUR: 2, LIMIT: 2, FORKS: 1, DISK: 1, CLOCK: 1,
}  # fmt: skip
"""Weights of the events after each kind has come once."""
HANG_SECONDS = 45.0
"""Time until a hanging worker is surely gone: 30 s without a sign of life, and the way to its death."""
HANG_EVERY = 90.0
"""Seconds between two hangs: each costs an engine half a minute."""


@dataclass(frozen=True, slots=True)
class Event:
    """``at`` and ``seconds`` on the clock of the run. ``job``: whom it hits; "" for all."""

    at: float
    kind: str
    job: str
    seconds: float


def schedule(seed: int, seconds: float, jobs: Sequence[str], kinds: Sequence[str], gap: float) -> list[Event]:
    """Events from the first second to the last, ``gap`` seconds apart in the mean, in order.

    A hang comes first, since it takes longest. Then each of ``kinds`` comes once, as far as there is time, then they
    come by their weights.
    """
    dice = random.Random(seed)
    first = [kind for kind in kinds if kind != HANG]
    dice.shuffle(first)
    often = [kind for kind in OFTEN if kind in kinds]
    at, hangs, events = 1.0, 0.0, []
    while at < seconds:
        if HANG in kinds and at >= hangs:
            kind, hangs = HANG, at + HANG_EVERY
        else:
            kind = first.pop() if first else dice.choices(often, [OFTEN[one] for one in often])[0]
        lasts = HANG_SECONDS if kind == HANG else round(dice.uniform(*LASTS.get(kind, (0.0, 0.0))), 2)
        job = "" if kind in OF_ALL else dice.choice(jobs)
        events.append(Event(round(at, 2), kind, job, lasts))
        at += dice.uniform(0.3, 1.7) * gap
    return events
