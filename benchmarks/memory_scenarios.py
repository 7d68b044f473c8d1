"""Memory over time: the scenarios, the timeline and the comparison of the reference, and the memory targets.

    python -m benchmarks.memory_scenarios [--minute 4] [--cycles 20] [--moves] [--llm MODEL] [--vision MODEL] …

The reference is a design with expected figures. It lets minutes pass; here ``--minute`` real seconds stand for each,
set by [residency] alone. Larger models want a longer minute: all engines should be used within it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks import report
from benchmarks.device import Device, add_arguments, chosen, prepare
from benchmarks.memory_picture import draw
from benchmarks.memory_tables import Results, document, judge, moves, verdicts
from benchmarks.process import serving
from benchmarks.scenario import CONSULTATION, SENTENCE, Pace, Scenario, record_speech, requests, run
from benchmarks.targets import QUICK, Asking, Climb, Cycle, Step, asking, climbs, cycles, estimates, steps
from benchmarks.timeline import play

from edgeserve.jobs import JOBS

EVERYTHING = ("chat", "see", "transcribe", "speak")
SCENARIOS = (
    Scenario("1 chat only", ("llm",), ("chat",), "~1.5 GB", "~50 MB"),
    Scenario("2 transcription, SOAP notes", ("llm", "asr"), ("transcribe", "soap"), "~2.7 GB", "~50 MB"),
    Scenario("3 full stack", JOBS, EVERYTHING, "~5.4 GB", "~50 MB"),
    Scenario("4 Jetson, 8 GB, no TTS", ("llm", "asr"), ("chat", "transcribe"), "~2.7 GB", "", override_mb=8192),
)
"""hybrid-mmap-lazy-loading.md, "Memory Budget by Scenario"; the Jetson's 8 GB are simulated."""
HYBRID = 2
NAIVE = Scenario("naive", JOBS, EVERYTHING, "5.5 GB", "5.5 GB", keys="preload = true\npinned = true\n")
LAZY = Scenario("all lazy", JOBS, EVERYTHING, "", "50 MB", lazy=True)
"""The same, "Comparison with Naive Loading"; hybrid is the full stack as it is by default."""
ROUNDS = 5


def measure(device: Device, pace: Pace, count: int) -> Results:
    consultation, sentence = record_speech(device, CONSULTATION, SENTENCE)
    quick, asked = asking(device, sentence), requests(device, consultation)
    first, second = estimates(device, quick, "estimate"), estimates(device, quick, "learned")
    record, moments = play(device, asked, pace)
    scenarios = [run(device, one, asked, pace) for one in SCENARIOS]
    naive, lazy = (run(device, one, asked, pace) for one in (NAIVE, LAZY))
    done, told, ways = move(device, quick, count)
    return Results(
        pace=pace,
        record=record,
        moments=moments,
        scenarios=scenarios,
        comparison={"naive": naive, "all lazy": lazy, "hybrid": scenarios[HYBRID]},
        estimates=first,
        learned=second,
        cycles=done,
        steps=told,
        climbs=ways,
    )


def move(device: Device, quick: Asking, count: int) -> tuple[list[Cycle], list[Step], list[Climb]]:
    """The steps down of ``count`` cycles, and the ways back up."""
    with serving(device.config("cycles", residency=QUICK), "--log-level", "error", environ=device.environ) as server:
        server.wait_healthy()
        return cycles(server, quick, count), steps(server), climbs(server, quick, ROUNDS)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--minute", type=float, default=Pace().minute, help="real seconds for a minute of the reference"
    )
    parser.add_argument("--cycles", type=int, default=20, help="of use and step down, for each engine")
    parser.add_argument("--moves", action="store_true", help="only steps down and ways back up; writes no page")
    add_arguments(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load = f"Load of the machine before the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
        device = prepare(Path(folder), chosen(arguments))
        if arguments.moves:
            quick = asking(device, *record_speech(device, SENTENCE))
            for name, table in moves(*move(device, quick, arguments.cycles)).items():
                print(f"## {name}\n\n{table}\n")
            return 0
        results = measure(device, Pace(arguments.minute), arguments.cycles)
        names = dict(device.models.names())
    draw(results, report.picture("memory_scenarios"))
    print(report.write("memory_scenarios", "Memory scenarios", f"{load}\n\n{document(results, names)}"))
    checks = judge(results)
    print(verdicts(checks))
    return 0 if all(check.met for check in checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
