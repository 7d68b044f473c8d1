"""The server in a memory control group too small for it: no kill, no wrong answer, only 200, 503 and 507.

    python -m benchmarks.under_limit [--seconds 60] [--clients 6] [--seed 1]

First without a limit: all four engines hot and used, which gives the footprint and the right answers. Then, for each
limit, a fresh server under a mixed load of all engines. Swap is off inside the group. Needs a control group of its own
(Linux, usually as root); without one it says so and ends with 0.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from benchmarks import report
from benchmarks.control_group import MB, Group, NotPermittedHere, group
from benchmarks.device import Device, Models, add_arguments, chosen, prepare
from benchmarks.load import REFUSALS, Ask, Load, Outcome, chat, go_on, look, speak, transcribe
from benchmarks.process import Memory, memory_of_all, serving
from benchmarks.sampling import Record, Sampler

from edgeserve.jobs import JOBS

SHARES = (1.0, 0.75, 0.5)
"""Limits as shares of the all-hot footprint."""
GROUP = 0
"""Stands for the control group where a process is asked for."""
SENTENCES = ("The quick brown fox jumps over the lazy dog.", "The train to the city leaves every morning at seven.")
SPELLED = (
    "Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo Lima Mike November Oscar Papa Quebec Romeo "
    "Sierra Tango Uniform Victor Whiskey Xray Yankee Zulu. "
)


@dataclass(frozen=True, slots=True)
class Run:
    """One server's life in a group of this ``version``. ``limit`` in bytes, None without one; ``steps`` counts those
    down."""

    name: str
    version: int
    limit: int | None
    outcomes: Sequence[Outcome]
    wrong: Sequence[str]
    kills: int
    alive: bool
    steps: int
    record: Record

    @property
    def footprint(self) -> float:
        """Most that the process took, in MB (Pss)."""
        return max(one.processes[0].pss for one in self.record.samples)

    @property
    def passed(self) -> bool:
        known = {200, *REFUSALS}
        return self.alive and not self.kills and not self.wrong and all(one.status in known for one in self.outcomes)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of load for each limit")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1, help="of the order in which clients ask")
    add_arguments(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the group is removed then too
    try:
        runs = measure(chosen(options), options)
    except NotPermittedHere as error:
        print(f"nothing measured: this machine permits no memory control group of our own: {error}")
        return 0
    write(runs, options)
    passed = all(run.passed for run in runs)
    print("target met" if passed else "TARGET MISSED")
    return 0 if passed else 1


def measure(models: Models, options: argparse.Namespace) -> list[Run]:
    with tempfile.TemporaryDirectory() as folder:
        device = prepare(Path(folder), models)
        own_files(device)
        first, load = all_hot(device)
        runs = [first]
        for share in SHARES:
            limit = int(share * first.footprint) * MB
            runs.append(under(device, f"{share:g} × footprint", limit, load, options))
    return runs


def own_files(device: Device) -> None:
    """Copies of the models whose pages no other process has in memory: they are charged to whoever reads them first."""
    root = Path(device.environ["EDGESERVE_MODELS_DIR"])
    for link in root.iterdir():
        if link.is_symlink():
            kept = link.resolve()
            link.unlink()
            shutil.copytree(kept, link)


def forget(device: Device) -> None:
    """Drop the models from the page cache, so that this server's group pays for them."""
    for path in Path(device.environ["EDGESERVE_MODELS_DIR"]).rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def all_hot(device: Device) -> tuple[Run, Load]:
    """All engines hot and used, twice: what they take together, and what they answer. Raises when one is refused."""

    def use(url: str) -> Load:
        load = Load(url, asks(url, device), random.Random(0))
        for _ in range(2):
            asyncio.run(load.learn())
        return load

    return _lived(device, "no limit", None, use)


def under(device: Device, name: str, limit: int, right: Load, options: argparse.Namespace) -> Run:
    def use(url: str) -> Load:
        load = Load(url, right.asks, random.Random(options.seed), patient=True, expected=right.expected)
        until = time.monotonic() + options.seconds
        asyncio.run(load.run(options.clients, lambda: time.monotonic() < until))
        return load

    return _lived(device, name, limit, use)[0]


def _lived(device: Device, name: str, limit: int | None, use: Any) -> tuple[Run, Load]:
    """A fresh server in a fresh group."""
    forget(device)
    config = device.config("all")
    with group("edgeserve-benchmark") as inside:
        if limit is not None:
            inside.limit(limit)
        with serving(config, "--log-level", "warning", environ=device.environ, launcher=inside.launcher) as server:
            server.wait_healthy()
            with Sampler(
                server.pid, GROUP, read=lambda pid: memory_of_all(pid) if pid else memory_in(inside)
            ) as sampler:
                load = use(server.url)
            alive = server.process.poll() is None
            steps = server.get("/memory/stats")["total_evictions"] if alive else 0
        counted = (load.outcomes, load.wrong, inside.kills(), alive, steps)
        run = Run(name, inside.files.number, limit, *counted, sampler.record)
    print(name, summary(run), *run.wrong[:5], sep="\n  ")
    return run, load


def memory_in(inside: Group) -> Memory:
    anonymous, cache = inside.parts()
    return Memory(inside.usage() / MB, anonymous / MB, cache / MB)


def asks(url: str, device: Device) -> list[Ask]:
    """Whole and streamed, for every engine; what is to be transcribed is said by the server itself."""
    spoken = []
    for text in SENTENCES:
        answer = httpx.post(f"{url}/v1/tts/synthesize", json={"text": text}, timeout=120)
        spoken.append(transcribe(text, answer.raise_for_status().content))
    return [
        chat("What is the capital of Japan?", 32),
        go_on(SPELLED, 32, stream=True),
        look("red", device.picture, 32),
        look("red", device.picture, 32, stream=True),
        *spoken,
        speak(SENTENCES[0]),
        speak(SENTENCES[1], stream=True),
    ]


def summary(run: Run) -> str:
    counts = Counter(one.status for one in run.outcomes)
    return f"{dict(counts)}, {len(run.wrong)} wrong, {run.kills} killed, {run.steps} steps down"


HEADER = ("limit", "MB", "peak charged", "peak Pss", "anonymous", "asked", "200", "503", "507", "other", "wrong")
HEADER += ("OOM kills", "steps down")


def row(run: Run) -> list[str]:
    counts = Counter(one.status for one in run.outcomes)
    other = len(run.outcomes) - sum(counts[status] for status in (200, *REFUSALS))
    samples = run.record.samples
    sizes = [f"{run.limit // MB}" if run.limit else "–", f"{max(one.processes[1].pss for one in samples):.0f}"]
    sizes += [f"{run.footprint:.0f}", f"{max(one.processes[0].anonymous for one in samples):.0f}"]
    answers = [len(run.outcomes), *(counts[status] for status in (200, *REFUSALS)), other, len(run.wrong), run.kills]
    return [run.name, *sizes, *map(str, answers), str(run.steps)]


def latencies(run: Run) -> list[str]:
    """Answered of asked for each engine with the median seconds of an answer, then those of the refusals."""
    cells = []
    for job in JOBS:
        mine = [one for one in run.outcomes if one.job == job]
        good = [one.seconds for one in mine if one.status == 200]
        cells.append(f"{len(good)} of {len(mine)}, {median(good)}")
    for status in REFUSALS:
        cells.append(median([one.seconds for one in run.outcomes if one.status == status]))
    return [run.name, *cells]


def median(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} s" if seconds else "–"


def draw(runs: Sequence[Run]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(runs), 1, figsize=(9, 2.3 * len(runs)), sharey=True)
    for axis, run in zip(axes, runs, strict=True):
        at = [one.at for one in run.record.samples]
        server, charged = zip(*(one.processes for one in run.record.samples), strict=True)
        axis.plot(at, [one.pss for one in charged], color="0.6", label="charged to the group")
        axis.plot(at, [one.anonymous for one in server], color="tab:orange", label="Pss, anonymous")
        axis.plot(at, [one.file for one in server], color="tab:blue", label="Pss, files")
        if run.limit:
            axis.axhline(run.limit / MB, color="tab:red", linestyle="--", label="limit")
        axis.set_title(run.name, loc="left", fontsize=9)
        axis.set_ylabel("MB")
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_ylim(bottom=0)
    axes[-1].set_xlabel("seconds")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(report.picture("under_limit"), dpi=120)


def write(runs: Sequence[Run], options: argparse.Namespace) -> None:
    engines = ("limit", *JOBS, "a 503 took", "a 507 took")
    body = [
        f"The server inside a memory control group (version {runs[0].version}), swap off, from its first instruction. "
        "The footprint is the most it took (Pss) without a limit, with all four engines hot and used. Then, for each "
        f"limit, a fresh server: {options.clients} clients ask all engines at random for {options.seconds:g} s, whole "
        "and streamed, and wait after a refusal as it says, at most a second. Default settings; the server finds the "
        "limit by itself. An answer is wrong when it differs from the one given without a limit. Wanted: no kill, no "
        "wrong answer, nothing but 200, 503 and 507.",
        report.table(HEADER, map(row, runs)),
        "Sizes in MB. What is charged includes the page cache of the model files, which were not in memory when the "
        "server started; the kernel drops it by itself when the group is full.",
        report.table(engines, map(latencies, runs)),
        "Answered of asked, and the median time to the last byte.",
        "![memory over time](under_limit.png)",
    ]
    draw(runs)
    print(report.write("under_limit", "Under a memory limit", "\n\n".join(body)))


if __name__ == "__main__":
    raise SystemExit(main())
