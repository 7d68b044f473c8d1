"""One run of schemathesis against a server of its own, and a look at that server from outside."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fuzz import beyond
from benchmarks.fuzz.house import Held, house

CONFIG = Path(__file__).parent / "schemathesis.toml"
ROOT = CONFIG.parent.parent.parent
PHASES = ("examples", "coverage", "fuzzing", "stateful")
FIRST = 2
"""Examples of a first run, after which the server is measured: by then its pools and caches have come to be."""
PATIENCE = 3600.0
"""Seconds for a run."""
MISSING = "schemathesis is not installed; install the extra dev: pip install -e '.[dev]'"


@dataclass(slots=True)
class Seen:
    """``reports``: schemathesis' own, of the first run and of the whole one. ``words``: its text about failures.
    ``excused``: answers by the reason of their rule."""

    seed: int
    examples: int
    reports: list[Mapping[str, Any]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    excused: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu: float = 0.0


def program() -> str | None:
    """The command schemathesis: of this Python, or in PATH. None where there is none."""
    return shutil.which("schemathesis", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def check(seed: int, examples: int, phases: Sequence[str] = PHASES) -> Seen:
    """A whole run, with a server of its own. Raises FileNotFoundError where schemathesis is not installed."""
    if (command := program()) is None:
        raise FileNotFoundError(MISSING)
    seen, began, before = Seen(seed, examples), time.monotonic(), _cpu()
    with tempfile.TemporaryDirectory() as folder, house(Path(folder)) as server:
        for number, those in ((FIRST, ("fuzzing",)), (examples, phases)):
            code = run(command, server.server.url, Path(folder), number, those, seen)
            seen.faults += faults(seen.reports[-1], code)
            seen.faults += [*server.said(), *server.unwell()]
            if server.server.process.poll() is not None:
                break
            seen.held.append(server.held())
        if len(seen.held) == 2:
            seen.faults += seen.held[1].faults(seen.held[0])
    seen.seconds, seen.cpu = time.monotonic() - began, _cpu() - before
    return seen


def run(command: str, url: str, folder: Path, examples: int, phases: Sequence[str], seen: Seen) -> int:
    """Run schemathesis on the server at ``url``. Keeps its report and its text, returns its exit code."""
    path, excused = folder / "report.json", folder / "excused.json"
    path.unlink(missing_ok=True)
    excused.write_text("{}", encoding="utf-8")
    done = subprocess.run(
        [
            *(command, "--config-file", str(CONFIG), "run", f"{url}/openapi.json"),
            *("--seed", str(seen.seed), "--max-examples", str(examples), "--phases", ",".join(phases)),
            *("--report", "json", "--report-json-path", str(path)),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), beyond.EXCUSED: str(excused)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE,
    )
    text = done.stdout.decode(errors="replace")
    seen.reports.append(json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {})
    seen.excused.update(json.loads(excused.read_text(encoding="utf-8")))
    if done.returncode:
        seen.words.append(text)
    return done.returncode


def faults(told: Mapping[str, Any], code: int) -> Iterator[str]:
    """The faults in a report of schemathesis, which ended with ``code``."""
    failures, errors = told.get("failures", ()), told.get("errors", ())
    for one in failures:
        yield f"{one['title']} × {one['count']}: {', '.join(one['operations'])}"
    for one in errors:
        yield f"schemathesis: {one['title']} × {one['count']}"
    if told.get("stop_reason") != "completed":
        yield f"schemathesis ended with code {code} before its end ({told.get('stop_reason', 'no report')})"
    elif code and not failures and not errors:
        yield f"schemathesis ended with code {code}, and its report names no failure"


def _cpu() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
