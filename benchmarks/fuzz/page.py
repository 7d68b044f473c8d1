"""The report of a run."""

from __future__ import annotations

from benchmarks import report
from benchmarks.fuzz.run import Seen

MEANT = """A case fails when one of these is so:

- The status is 5xx with another code than `queue_full`, `memory_pressure` or `insufficient_memory`.
- A code or its status is not in [errors](../api/errors.md), or an error has another shape.
- The answer is cut, is no JSON where it says so, or is not there after 10 s.
- A WebSocket closes with 1011.
- The server takes a body that its own /openapi.json forbids.
- `/v1/health` is not "ok" afterwards, or the log has a line at the level ERROR.
- Our own reader of GGUF headers or templates fails otherwise than with the product's error, takes
  more than 200 MB, or does not end in 12 s.

The run fails when the serving process holds 30 MB or 12 descriptors more at its end."""
FOUND = """## Found and mended

By these runs, or while what they found was mended. Each has a test; files and frames lie in
`tests/corpus`.

| kind | found | now |
| --- | --- | --- |
| frames | two close commands on a live WebSocket: unforeseen error | no frame is read after a close |
| frames | text that is not UTF-8: a traceback in the log | closed with 1007 |
| frames | the same before a close frame: an error in the event loop | closed |
| frames | a wrong frame before the handshake was answered: an assertion failed | the answer comes first |
| frames | a client that left before its handshake was answered: unforeseen error | ends the session |
| templates | `{% break %}` outside a loop: Python's SyntaxError | 400, as for other broken templates |
| gguf | an array longer than any offset: ValueError | `engine_failure` that names the file |
| gguf | a last array longer than the file: believed | `engine_failure` that names the file |
| gguf | NaN, infinity or a text as a size: ValueError | counts as left out |
| gguf | a negative size: a negative estimate of memory | counts as left out |

A model whose header names more than 512 layers makes llama.cpp's loader abort. With
`isolation = "process"` that ends the worker alone, and the next request starts another.

## How cases are made

Requests of `routes` follow the server's own OpenAPI document: bodies that follow their schema,
bodies with one to three values changed, and rows of requests (live sessions, engines up and down).
The other kinds change bytes of whole requests and files. Engines are without models; sound and
pictures are decoded by the real decoders in processes of their own. schemathesis makes requests
from the same document: [schema.md](schema.md)."""


def text(seen: Seen, seconds: float, cpu: float) -> str:
    """The body of the page. ``seconds`` of the run, and ``cpu`` seconds of all its processes."""
    count = sum(one.cases for one in seen.kinds.values())
    blocks = [
        f"{count:,} cases of seed {seen.seed} in {seconds:.0f} s, {cpu:.0f} s of processor time with the server and "
        f"all its children: `python -m benchmarks.fuzz --seed {seen.seed} --cases {count}`.",
        MEANT,
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
    blocks.append(
        f"llama.cpp's loader ended its own process {seen.deaths} times; {seen.decoders} decoders of the server died."
    )
    return "\n\n".join([*blocks, FOUND])


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
