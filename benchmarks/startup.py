"""Seconds from process start to the first healthy answer, and the process's memory then.

    python -m benchmarks.startup [--runs 5]

Two servers: one with no engine configured, one with all four (vision runs the language model with a small
projector that is built here, since no vision model is among the starter models). The second one is also started by
its first connection, as systemd does, where systemd-socket-activate is installed. Best and median of the runs.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from benchmarks import report
from benchmarks.device import Device, Models, prepare
from benchmarks.process import Memory, ServerProcess, free_port, running, serving

TARGET_SECONDS, TARGET_MB, TARGET_ANSWER = 1.5, 100.0, 1.0
ACTIVATE = "systemd-socket-activate"
FOUR, FIRST = "all four engines", "started by a connection"


@dataclass(frozen=True, slots=True)
class Start:
    seconds: float
    memory: Memory


def measure(device: Device, config: Path, runs: int) -> list[Start]:
    starts = []
    for _ in range(runs):
        with serving(config, "--log-level", "warning", environ=device.environ) as server:
            seconds = server.wait_healthy()
            starts.append(Start(seconds, server.memory()))
    return starts


def measure_activation(device: Device, config: Path, runs: int) -> list[Start]:
    """Seconds from the first connection to its answer, when nothing runs before it."""
    starts = []
    for _ in range(runs):
        port = free_port()
        passed = (word for name in device.environ for word in ("-E", name))
        serve = [sys.executable, "-m", "edgeserve", "serve", "--config", str(config), "--log-level", "warning"]
        with running([ACTIVATE, "-l", f"127.0.0.1:{port}", *passed, *serve], port, device.environ) as server:
            _wait_listening(server)
            begun = time.perf_counter()
            server.get("/v1/health")
            starts.append(Start(time.perf_counter() - begun, server.memory()))
    return starts


def _wait_listening(server: ServerProcess) -> None:
    """A connection would start the server, so the socket is looked for from outside."""
    while not psutil.Process(server.pid).net_connections("tcp"):
        if server.process.poll() is not None:
            raise RuntimeError(f"{ACTIVATE} ended with exit code {server.process.returncode}")
        time.sleep(0.005)


def rows(results: dict[str, list[Start]]) -> list[list[str]]:
    return [
        [
            name,
            f"{min(start.seconds for start in starts):.2f}",
            f"{statistics.median(start.seconds for start in starts):.2f}",
            *(
                f"{statistics.median(getattr(start.memory, part) for start in starts):.0f}"
                for part in ("pss", "anonymous", "file")
            ),
        ]
        for name, starts in results.items()
    ]


def draw(results: dict[str, list[Start]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.2))
    names = [textwrap.fill(name, 16) for name in results]
    left.bar(names, [statistics.median(start.seconds for start in starts) for starts in results.values()], width=0.5)
    left.axhline(TARGET_SECONDS, color="tab:red", linestyle="--", label="target")
    left.set_title("seconds to the first healthy answer")
    bottom = [0.0] * len(names)
    for part in ("anonymous", "file"):
        values = [statistics.median(getattr(one.memory, part) for one in starts) for starts in results.values()]
        right.bar(names, values, bottom=bottom, width=0.5, label=part)
        bottom = [below + value for below, value in zip(bottom, values, strict=True)]
    right.axhline(TARGET_MB, color="tab:red", linestyle="--", label="target")
    right.set_title("memory then (Pss, MB)")
    for axis in (left, right):
        axis.legend(loc="center left", frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(report.picture("startup"), dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        device = prepare(Path(folder), Models())
        configs = {"no engine": device.config("none", []), FOUR: device.config("four")}
        results = {name: measure(device, config, runs) for name, config in configs.items()}
        if shutil.which(ACTIVATE):
            results[FIRST] = measure_activation(device, configs[FOUR], runs)
    header = ["configured", "seconds, best", "seconds, median", "Pss MB", "of it anonymous", "of it files"]
    body = report.table(header, rows(results))
    draw(results)
    text = (
        f"Process start to the first healthy answer, {runs} runs, page cache warm; targets with all four engines: "
        f"{TARGET_SECONDS} s and {TARGET_MB:.0f} MB. {FIRST.capitalize()}: all four engines, and the time from the "
        f"first connection to its answer, while nothing ran before ([the service](../service.md)); target "
        f"{TARGET_ANSWER:g} s."
        f"\n\n{body}\n\n![startup](startup.png)"
    )
    print(report.write("startup", "Startup", text))
    print(body)
    four, first = results[FOUR], results.get(FIRST, [])
    met = statistics.median(one.seconds for one in four) <= TARGET_SECONDS
    met = met and all(one.memory.pss <= TARGET_MB for one in four)
    met = met and (not first or statistics.median(one.seconds for one in first) <= TARGET_ANSWER)
    print("target met" if met else "TARGET MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
