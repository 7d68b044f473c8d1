"""One run: cases of each kind by their share, a judgement on each, and the smallest form of each fault."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fuzz import asks, files, talk
from benchmarks.fuzz.case import Ask, Case, End, File, dice_of
from benchmarks.fuzz.house import Held, House, house
from benchmarks.fuzz.rooms import Rooms
from benchmarks.fuzz.routes import Routes

SHARES = {
    "json": 0.20,
    "multipart": 0.15,
    "routes": 0.25,
    "frames": 0.10,
    "sound": 0.10,
    "pictures": 0.10,
    "gguf": 0.05,
    "templates": 0.05,
}
"""Kinds of cases, and their shares of a run."""
LOOK = 10
"""Cases between two looks at the health. After a fault the health is looked at too."""
FIRST = 0.1
"""Share of the cases after which the server is measured first: by then its pools and caches have come to be."""
TRIES = 60
"""Most attempts to make a failing case smaller."""
Make = Callable[[random.Random, int], Case]


def makers(document: Mapping[str, Any]) -> dict[str, Make]:
    """The maker of each kind. ``document``: the server's /openapi.json."""
    return {
        "json": asks.json_case,
        "multipart": asks.multipart_case,
        "routes": Routes(document).make,
        "frames": talk.make,
        "sound": asks.sound_case,
        "pictures": asks.picture_case,
        "gguf": files.gguf_case,
        "templates": files.template_case,
    }


@dataclass(frozen=True, slots=True)
class Found:
    """A fault, with the smallest case that still shows it."""

    case: Case
    faults: Sequence[str]


@dataclass(slots=True)
class Kind:
    """All cases of one kind."""

    cases: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: float = 0.0
    slowest_case: int = 0

    def add(self, number: int, end: End, seconds: float) -> None:
        self.cases += 1
        self.statuses[end.status] += 1
        if end.code:
            self.codes[end.code] += 1
        self.seconds += seconds
        if end.seconds > self.slowest:
            self.slowest, self.slowest_case = end.seconds, number


@dataclass(slots=True)
class Seen:
    """``found``: faults of cases; ``faults``: those of the whole run. ``held``: after a tenth of it, and at its end.
    ``deaths``: processes that llama.cpp's loader ended; ``decoders``: decoders of the server that died."""

    seed: int
    kinds: dict[str, Kind] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    deaths: int = 0
    decoders: int = 0


class Run:
    """Runs cases against one server and the rooms."""

    def __init__(self, house: House, rooms: Rooms, seed: int, out: Path) -> None:
        self._house, self._rooms, self._out = house, rooms, out
        self.document: Any = house.server.get("/openapi.json")
        self._makers, self._routes = makers(self.document), Routes(self.document)
        self.seen = Seen(seed)

    def run(self, plan: Sequence[tuple[str, int]]) -> Seen:
        first = max(1, int(FIRST * len(plan)))
        for done, (kind, number) in enumerate(plan):
            if done == first:
                self.seen.held.append(self._house.held())
            self._one(kind, number, look=done % LOOK == 0)
            if self._house.server.process.poll() is not None:
                self.seen.faults.append(f"the server ended after case {kind} {number}")
                return self.seen
        self.seen.held.append(self._house.held())
        self.seen.faults += [*self._house.unwell(), *self._house.said()]
        if len(self.seen.held) == 2:
            self.seen.faults += self.seen.held[1].faults(self.seen.held[0])
        self.seen.deaths, self.seen.decoders = self._rooms.deaths, self._house.decoders
        return self.seen

    def _one(self, kind: str, number: int, *, look: bool) -> None:
        case = self._makers[kind](dice_of(self.seen.seed, kind, number), number)
        began = time.monotonic()
        end = self.end(case, look=look)
        self.seen.kinds.setdefault(kind, Kind()).add(number, end, time.monotonic() - began)
        if end.faults:
            self.seen.found.append(Found(self._smaller(case), end.faults))
            self._write(self.seen.found[-1])

    def end(self, case: Case, *, look: bool = True) -> End:
        """Run the case. Its status and code are those of its last step."""
        end = End()
        for step in case.steps:
            began = time.monotonic()
            one = self._rooms.read(step) if isinstance(step, File) else self._house.client.send(step)
            one.seconds = max(time.monotonic() - began, end.seconds)
            one.faults[:0] = end.faults
            end = one
        self._house.end_sessions()
        end.faults += self._beyond(case, end) if case.kind == "routes" else []
        end.faults += self._house.said()
        if look or end.faults:
            end.faults += self._house.unwell()
        return end

    def _beyond(self, case: Case, end: End) -> list[str]:
        """The fault of a body that was taken although the document forbids it. The other way round is none: some
        rules, such as one field that is needed without another, are beyond the document."""
        step = case.steps[-1]
        if not isinstance(step, Ask) or step.method != "POST" or end.status != "200":
            return []
        if self._routes.follows(step.path, step.body) is False:
            return ["the body was taken, although /openapi.json forbids it"]
        return []

    def _smaller(self, case: Case) -> Case:
        """The case with fewer steps and bytes, as long as it fails."""
        with contextlib.suppress(OSError):
            for _ in range(TRIES):
                for tried in smaller(case):
                    if self.end(tried).faults:
                        case = tried
                        break
                else:
                    break
        return case

    def _write(self, found: Found) -> None:
        """The reproduction: a description, and a file for each body."""
        self._out.mkdir(parents=True, exist_ok=True)
        name = f"{found.case.kind}-{self.seen.seed}-{found.case.number}"
        steps = []
        for at, step in enumerate(found.case.steps):
            (self._out / f"{name}-{at}.bin").write_bytes(step.body)
            steps.append({**dataclasses.asdict(step), "body": f"{name}-{at}.bin"})
        told = {"name": found.case.name, "faults": list(found.faults), "steps": steps}
        (self._out / f"{name}.json").write_text(json.dumps(told, indent=1))


def smaller(case: Case) -> Iterator[Case]:
    """The case without each step, and with each body's halves, quarters … left out."""
    steps = list(case.steps)
    if len(steps) > 1:
        for at in range(len(steps)):
            yield dataclasses.replace(case, steps=[*steps[:at], *steps[at + 1 :]])
    for at, step in enumerate(steps):
        for parts in (2, 4, 8):
            size = len(step.body) // parts
            for start in range(0, size * parts, size) if size else ():
                body = step.body[:start] + step.body[start + size :]
                yield dataclasses.replace(
                    case, steps=[*steps[:at], dataclasses.replace(step, body=body), *steps[at + 1 :]]
                )


def plan(cases: int, kinds: Sequence[str] = tuple(SHARES), start: int = 0) -> list[tuple[str, int]]:
    """So many cases of these kinds by their shares, mixed. ``start``: number of the first case of each kind."""
    whole = sum(SHARES[kind] for kind in kinds)
    made = [(kind, start + number) for kind in kinds for number in range(max(1, round(cases * SHARES[kind] / whole)))]
    random.Random(len(made)).shuffle(made)
    return made


def fuzz(seed: int, made: Sequence[tuple[str, int]], out: Path) -> Seen:
    """The whole run, with a server of its own. ``out``: the folder of reproductions."""
    with tempfile.TemporaryDirectory() as folder, house(Path(folder)) as server:
        rooms = Rooms(Path(folder))
        with contextlib.closing(rooms):
            return Run(server, rooms, seed, out).run(made)
