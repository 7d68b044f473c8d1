"""The report of a run of schemathesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchmarks import report
from benchmarks.fuzz.beyond import RULES
from benchmarks.fuzz.conformance import Seen

MEANT = """The checks:

- No answer is a 5xx.
- The media type of an answer is in the document.
- The server accepts a request that the document allows, and refuses one that the document forbids.
- The server refuses a method that the document does not name with 405.
- The log has no line at the level ERROR, and `/v1/health` is "ok" at the end.
- The serving process holds at most 30 MB and 12 descriptors more at the end than after a first,
  short run."""
BEYOND = """## Answers that are excused

OpenAPI cannot express these rules of the server. Each excuses one kind of answer, no other
(`benchmarks/fuzz/beyond.py`)."""


def text(seen: Seen) -> str:
    """The body of the page."""
    whole = seen.reports[-1]
    cases = sum(one.get("test_cases", {}).get("generated", 0) for one in seen.reports)
    version = whole.get("schemathesis_version", "of unknown version")
    phases = [name for name, one in (whole.get("phases") or {}).items() if one["status"] != "skip"]
    blocks = [
        f"schemathesis {version}, {cases:,} requests of seed {seen.seed} in {seen.seconds:.0f} s, {seen.cpu:.0f} s of "
        f"processor time with the server and all its children; phases {', '.join(phases)}: "
        f"`python -m benchmarks.fuzz.schema --seed {seen.seed} --examples {seen.examples}`.",
        MEANT,
        "\n".join([f"**{len(seen.faults)} faults:**", "", *(f"- {one}" for one in seen.faults)])
        if seen.faults
        else "**No fault.**",
        report.table(["requests that the document allows", "accepted", "refused", "gone or unknown"], _rates(seen)),
    ]
    if len(seen.held) == 2:
        rows = [
            ["memory, Pss, MB", *(f"{one.memory:.1f}" for one in seen.held)],
            ["descriptors", *(str(one.descriptors) for one in seen.held)],
        ]
        blocks.append(
            report.table(["the serving process, all engines cold", "after the first run", "at the end"], rows)
        )
    rules = [[f"`{one.operations}`".replace("|", r"\|"), one.reason, str(seen.excused[one.reason])] for one in RULES]
    return "\n\n".join([*blocks, BEYOND, report.table(["operations", "rule", "answers"], rules)])


def _rates(seen: Seen) -> Iterator[list[str]]:
    """A row an operation: the answers to requests that the document allows."""
    totals: dict[str, Counter[str]] = {}
    for told in seen.reports:
        for operation, phases in told.get("valid_rates", {}).items():
            for one in phases.values():
                totals.setdefault(operation, Counter()).update(one)
    for operation, total in totals.items():
        yield [
            operation,
            str(total["accepted"]),
            str(total["rejected"]),
            str(total["unreachable"] + total["conflicts"]),
        ]
