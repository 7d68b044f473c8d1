"""Several nodes on one machine: what a hop costs, what more nodes bring, and what the loss of a node costs.

    python -m benchmarks.cluster [--trial]       needs Ray and Caddy (make test-cluster)

The nodes run fake engines that wait instead of computing, so that a few cores carry all of them. Figures show places
and failover, not the speed of models.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from benchmarks import cluster_node, cluster_splits, report
from benchmarks.cluster_boxes import caddy, nodes, ray_boxes
from benchmarks.streams import percentile

CHAT = "/v1/chat/completions"
PAIRS = 150
CLIENTS = 16
WORDS = 20
DELAY = 0.02
"""Seconds a word, so that an answer takes 0.4 s."""
SECONDS = 12.0
KILL_AFTER, KILL_SECONDS = 4.0, 16.0
MEMORY = (4000, 4000, 4000)


@dataclass(slots=True)
class Asked:
    """One request of a client: seconds on the clock of ``time.perf_counter``. ``result``: "ok", a status, "cut"."""

    began: float
    first: float = 0.0
    end: float = 0.0
    result: str = "ok"


@dataclass(slots=True)
class Load:
    """Clients that ask again and again, each a text of its own; every answer is compared with its text."""

    url: str
    asked: list[Asked] = field(default_factory=list)

    async def run(self, seconds: float, clients: int = CLIENTS, event: Callable[[], None] | None = None) -> float:
        """Returns the time of ``event``, which is called after ``KILL_AFTER``, on a thread."""
        until, happened = time.perf_counter() + seconds, 0.0
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            work = asyncio.gather(*(self._again(client, number, until) for number in range(clients)))
            if event is not None:
                await asyncio.sleep(KILL_AFTER)
                happened = time.perf_counter()
                await asyncio.to_thread(event)
            await work
        return happened

    async def _again(self, client: httpx.AsyncClient, number: int, until: float) -> None:
        count = 0
        while time.perf_counter() < until:
            count += 1
            text = " ".join([f"c{number}q{count}"] * WORDS)
            one = Asked(time.perf_counter())
            try:
                await self._ask(client, one, text)
            except httpx.TransportError:
                one.result = "cut"
            one.end = time.perf_counter()
            self.asked.append(one)
            if one.result != "ok":
                await asyncio.sleep(0.05)  # clients that are refused pause, too

    async def _ask(self, client: httpx.AsyncClient, one: Asked, text: str) -> None:
        said = list[str]()
        async with client.stream("POST", self.url + CHAT, json=chat(text, stream=True)) as answer:
            if answer.status_code != 200:
                one.result = str(answer.status_code)
                return
            async for line in answer.aiter_lines():
                one.first = one.first or time.perf_counter()
                said.append(line.removeprefix("data: "))
        one.result = "ok" if _told(said) == text else "cut"


def _told(events: Sequence[str]) -> str | None:
    """The text of a stream; None for one that ended with an error, or too early."""
    if "[DONE]" not in events:
        return None
    found = [json.loads(one) for one in events if one.startswith("{")]
    return "".join(one["choices"][0]["delta"].get("content") or "" for one in found if one.get("choices"))


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def pairs(direct: str, other: str) -> list[float]:
    """Seconds that one short answer takes longer at the second address, in pairs."""
    found = []
    with httpx.Client(timeout=60, trust_env=False) as client:
        for number in range(PAIRS + 10):
            times = []
            for url in (direct, other) if number % 2 else (other, direct):
                began = time.perf_counter()
                client.post(url + CHAT, json=chat("hello")).raise_for_status()
                times.append(time.perf_counter() - began)
            ours, theirs = times if number % 2 else times[::-1]
            found.append(theirs - ours)
    return found[10:]


@dataclass(frozen=True, slots=True)
class Hop:
    name: str
    differences: Sequence[float]


@dataclass(frozen=True, slots=True)
class Scale:
    """``rate``: answers a second. Seconds to the first byte."""

    count: int
    rate: float
    first: float
    p99: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Requests around the end of a node: those that were right, that failed, and that failed after a second."""

    name: str
    right: int
    failed: int
    late: int
    last: float


def hops(folder: Path) -> Iterator[Hop]:
    with nodes(1) as (one,), caddy(folder, one.url) as url:
        yield Hop("Caddy", pairs(one.url, url))
    with ray_boxes(MEMORY[:1]) as boxes:
        reports = httpx.get(f"{boxes.url}/cluster/status", timeout=30).json()
        yield Hop("Ray Serve and the door", pairs(reports["nodes"][0]["name"], boxes.url))


def scaling() -> Iterator[Scale]:
    for count in (1, 2, 3):
        with ray_boxes(MEMORY[:count], DELAY) as boxes:
            load = Load(boxes.url)
            began = time.perf_counter()
            asyncio.run(load.run(SECONDS))
            right = [one for one in load.asked if one.result == "ok"]
            firsts = [one.first - one.began for one in right]
            rate = len(right) / (time.perf_counter() - began)
            yield Scale(count, rate, statistics.median(firsts), percentile(firsts, 0.99))


def losses(folder: Path) -> Iterator[Loss]:
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(nodes(3, DELAY))
        load = Load(stack.enter_context(caddy(folder, *(one.url for one in there))))
        killed = asyncio.run(load.run(KILL_SECONDS, 8, lambda: os.kill(there[0].pid, signal.SIGKILL)))
        yield _loss("Caddy", load, killed)
    with ray_boxes(MEMORY, DELAY) as boxes:
        load = Load(boxes.url)
        killed = asyncio.run(load.run(KILL_SECONDS, 8, lambda: boxes.kill(1)))
        yield _loss("Ray Serve and the door", load, killed)


def _loss(name: str, load: Load, killed: float) -> Loss:
    failed = [one for one in load.asked if one.result != "ok"]
    late = [one for one in failed if one.began > killed + 1.0]
    last = max((one.began - killed for one in failed), default=0.0)
    return Loss(name, len(load.asked) - len(failed), len(failed), len(late), last)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--trial", action="store_true", help="print the tables instead of writing a page")
    options = parser.parse_args()
    if importlib.util.find_spec("ray") is None or shutil.which("caddy") is None:
        print("left out: it needs Ray and Caddy, which `make test-cluster` installs into .venv-cluster")
        return 0
    with tempfile.TemporaryDirectory() as name:
        tables = _hops(list(hops(Path(name)))), _scales(list(scaling()))
        lost = list(losses(Path(name)))
        split = cluster_splits.splits(Path(name)) if cluster_splits.installed() else None
    text = [*tables, _losses(lost)]
    if split is None:
        print("splits are left out: they need llama.cpp's RPC, which `make test-cluster` installs")
    else:
        text += [cluster_splits.words(split), cluster_splits.table(split)]
    print(*text, sep="\n\n")
    if not options.trial:
        _page(text)
    late, wrong = any(one.late for one in lost), split is not None and not split.right
    if late:
        print("TARGET MISSED: requests failed that began a second after the end of a node")
    if wrong:
        print("TARGET MISSED: a split model gave another text, or the loss of its box another end")
    return 1 if late or wrong else 0


def _hops(found: Sequence[Hop]) -> str:
    rows = [
        (one.name, *(f"{1000 * percentile(one.differences, share):.1f} ms" for share in (0.5, 0.95))) for one in found
    ]
    return report.table(("hop", "median", "p95"), rows)


def _scales(found: Sequence[Scale]) -> str:
    rows = [
        (str(one.count), f"{one.rate:.1f}", f"{1000 * one.first:.0f} ms", f"{1000 * one.p99:.0f} ms") for one in found
    ]
    return report.table(("nodes", "answers a second", "first byte, median", "p99"), rows)


def _losses(found: Sequence[Loss]) -> str:
    rows = [
        (one.name, str(one.right), str(one.failed), str(one.late), f"{one.last:.2f} s" if one.failed else "–")
        for one in found
    ]
    return report.table(("way", "right", "failed", "failed that began 1 s later", "last failure began after"), rows)


def _page(tables: Sequence[str]) -> None:
    body = [
        "All nodes run on this one machine, on engines that wait instead of computing: a word in "
        f"{1000 * DELAY:.0f} ms, {cluster_node.SLOTS} answers at a time. So the figures show places and failover. Two "
        "cores carry all nodes, all clients and Ray itself; the times of hops are upper bounds.",
        f"Load of the machine, on average of the last 15 minutes: {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores.",
        "## A hop",
        f"One short answer directly and through the hop, in {PAIRS} pairs; the difference:",
        tables[0],
        "## More nodes",
        f"{CLIENTS} clients ask for answers of {WORDS} words for {SECONDS:.0f} s, through Ray Serve:",
        tables[1],
        "## A node is killed",
        "Three nodes, 8 clients; one node is killed as by a power cut. Each answer is compared with its question.",
        tables[2],
    ]
    if len(tables) > 3:
        body += ["## One model over several boxes", *tables[3:]]
    print(report.write("cluster", "Several boxes", "\n\n".join(body)))


if __name__ == "__main__":
    raise SystemExit(main())
