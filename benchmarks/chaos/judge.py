"""The verdict on a run: every failure has a cause that the schedule knows, and nothing is left over."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos import events
from benchmarks.chaos.clients import STREAMED
from benchmarks.chaos.hands import Happening
from benchmarks.chaos.pulse import Look
from benchmarks.chaos.replies import BROKEN, CUT, FAILED, HUNG, LEFT, RIGHT, WRONG, Reply
from benchmarks.chaos.watch import Rest

ERRORS = Path(__file__).parents[2] / "docs" / "api" / "errors.md"
DEADLY = {events.HANG, events.KILL, events.SEGV, events.ABORT, events.FORKS, events.CUT, events.REPLACE}
MEMORY = {events.NEIGHBOUR, events.LIMIT}
CAUSES: Mapping[str, Collection[str]] = {
    "engine_failure": DEADLY | MEMORY,
    "engine_restarting": DEADLY | MEMORY,
    "model_damaged": {events.CUT, events.REPLACE},
    "model_missing": {events.CUT, events.REPLACE},
    "store_error": {events.CUT, events.REPLACE},
    "memory_pressure": {*MEMORY, events.FORKS},
    "insufficient_memory": MEMORY,
    "disk_full": {events.DISK},
}
"""Kinds of events that explain a code. ``queue_full`` needs none; no other code is ever explained."""
GRACE = 10.0
"""Seconds after the end of an event in which its failures may still reach their clients."""
LONGEST_PAUSE = 120.0
"""The same for ``engine_restarting``: deaths count for a minute, and the longest pause is another."""
WORDLESS = {"speech wav", "speech mp3", "speech pcm"}
"""Kinds whose answers are sound: a failure after their begin is the end of the connection."""
RETRY = {"queue_full", "memory_pressure", "shutting_down", "engine_restarting"}
SHARE, MARGIN_MB = 0.10, 10.0
"""Allowed growth of the memory at rest: a share of what it was, and MB."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the server: its exit code, the processes that outlived it, and whether it ran until it was asked."""

    code: int | None
    left: int
    ran: bool


def codes(page: Path = ERRORS) -> dict[str, int]:
    """Codes with their status, as the documentation lists them."""
    found = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        if row := re.match(r"\| (\d{3}) \| ([^|]+) \|", line):
            found |= dict.fromkeys(re.findall(r"`(\w+)`", row[2]), int(row[1]))
    return found


def of_replies(replies: Sequence[Reply], happened: Sequence[Happening], known: Collection[str]) -> Iterator[str]:
    """Each reply that must not be, in one line."""
    for one in replies:
        if fault := _fault(one, happened, known):
            yield f"{one.line} ({fault})"


def _fault(one: Reply, happened: Sequence[Happening], known: Collection[str]) -> str:
    if one.verdict in (RIGHT, LEFT):
        return ""
    if one.verdict in (WRONG, HUNG):
        return f"{one.verdict} answers have no excuse"
    if one.code == CUT:
        if one.verdict == FAILED and one.kind in WORDLESS and one.status != BROKEN:
            return "" if explained(one, "engine_failure", happened) else "cut without a cause"
        return "the connection ended without a word"
    if one.code not in known:
        return "an unknown code"
    if one.code == "slow_reader":
        return "" if one.kind in STREAMED else "this client reads fast"
    if one.code == "queue_full" or (one.kind == "bad" and 400 <= one.status < 500):
        return ""
    return "" if explained(one, one.code, happened) else "without a cause"


def explained(one: Reply, code: str, happened: Sequence[Happening]) -> bool:
    """Whether an event explains this code for the engine of this request at this time."""
    grace = LONGEST_PAUSE if code == "engine_restarting" else GRACE
    return any(
        event.kind in CAUSES.get(code, ())
        and one.job in event.jobs
        and event.at <= one.ended
        and one.began <= event.until + grace
        for event in happened
    )


def of_health(looks: Sequence[Look], limit: float) -> Iterator[str]:
    for one in looks:
        if one.status != 200 or one.seconds - one.late > limit:
            late = f" (of which this process was late {one.late:.2f} s)"
            yield f"{one.at:6.1f} s  health: {one.status or 'no answer'} after {one.seconds:.2f} s{late}"
    if not looks:
        yield "nobody asked for the health"


def of_rest(before: Rest, after: Rest) -> Iterator[str]:
    for line in after.more_than(before, allowed(before)):
        yield f"at rest: {line}"


def allowed(before: Rest) -> float:
    """MB that the memory at rest may grow."""
    return SHARE * before.memory + MARGIN_MB


def of_end(ended: Ended) -> Iterator[str]:
    if not ended.ran:
        yield "the server ended before it was asked to"
    if ended.code != 0:
        yield f"the server ended with code {ended.code}"
    if ended.left:
        yield f"{ended.left} processes outlived the server"


def of_log(text: str) -> Iterator[str]:
    """Tracebacks that no logger wrote, which indents them: a thread or a process ended by an unforeseen exception."""
    for found in re.finditer(r"^Traceback.*?^(?=\S)(?!Traceback|  )[^\n]*", text, re.DOTALL | re.MULTILINE):
        yield f"an unforeseen exception: {found[0].splitlines()[-1]}"
