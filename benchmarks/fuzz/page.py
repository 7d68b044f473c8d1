"""The report of a run."""

from __future__ import annotations

from benchmarks import report
from benchmarks.fuzz.run import Seen


def text(seen: Seen, seconds: float, cpu: float) -> str:
    """The body of the page. ``seconds`` of the run, and ``cpu`` seconds of all its processes."""
    count = sum(one.cases for one in seen.kinds.values())
    blocks = [
        f"{count:,} cases of seed {seen.seed} in {seconds:.0f} s, {cpu:.0f} s of processor time with the server and "
        f"all its children: `python -m benchmarks.fuzz --seed {seen.seed} --cases {count}`.",
        _verdict(seen),
        report.table(["kind", "cases", "statuses", "ms a case", "slowest, ms", "its number"], _kinds(seen)),
        report.table(["kind", "code", "answers"], _codes(seen)),
    ]
    if len(seen.held) == 2:
        rows = [
            ["memory, Pss, MB", *(f"{one.memory:.1f}" for one in seen.held)],
            ["descriptors", *(str(one.descriptors) for one in seen.held)],
        ]
        blocks.append(report.table(["the serving process, all engines cold", "after a tenth", "at the end"], rows))
    blocks.append(f"llama.cpp's loader ended its own process {seen.deaths} times.")
    return "\n\n".join(blocks)


def _verdict(seen: Seen) -> str:
    lines = [
        f"- {one.case.kind} {one.case.number} ({one.case.name}): {one.faults[0].splitlines()[0]}" for one in seen.found
    ]
    lines += [f"- {one}" for one in seen.faults]
    return "\n".join([f"**{len(lines)} faults:**", "", *lines[:60]]) if lines else "**No fault.**"


def _kinds(seen: Seen) -> list[list[str]]:
    rows = []
    for name, one in seen.kinds.items():
        statuses = ", ".join(f"{status} × {count}" for status, count in one.statuses.most_common())
        each = 1000 * one.seconds / one.cases
        rows.append([name, str(one.cases), statuses, f"{each:.1f}", f"{1000 * one.slowest:.0f}", str(one.slowest_case)])
    return rows


def _codes(seen: Seen) -> list[list[str]]:
    return [
        [name, f"`{code}`", str(count)] for name, one in seen.kinds.items() for code, count in one.codes.most_common()
    ]
