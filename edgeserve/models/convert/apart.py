"""Conversions in a process of their own: their libraries and the memory that they need go with it.

A server that converted by itself kept both until its end: 30 MB at rest became 56.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeserve.errors import EdgeserveError, StoreError
from edgeserve.models.convert.conversions import CONVERSIONS
from edgeserve.processes import failures
from edgeserve.processes.interpreter import SECRETS, module_command
from edgeserve.system import lifeline

NICE = 10
"""Niceness of the process, so that answers go first."""


def convert(name: str, checkpoint: Path, out: Path, progress: Callable[[str, float], None]) -> Mapping[str, Path]:
    """Convert a checkpoint as ``Conversion.convert`` does, in a child.

    An exception of ``progress`` ends the child. Raises StoreError and its kinds, also for a child that ended early,
    and OSError.
    """
    with _started([*module_command(__name__), name, str(checkpoint), str(out)]) as child:
        try:
            for line in child.stdout or ():
                told = json.loads(line)
                if "files" in told:
                    return {role: Path(path) for role, path in told["files"].items()}
                _raise(told)
                progress(told["stage"], told["share"])
        finally:
            child.kill()
    text = "most likely because memory ran out" if child.returncode == -9 else f"with exit code {child.returncode}"
    raise StoreError(f"the checkpoint in {checkpoint} was not converted: its process ended early, {text}")


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    """A child of a group of its own, which Ctrl-C in a terminal does not reach: it ends with this process."""
    environ = {name: value for name, value in os.environ.items() if name not in SECRETS}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environ, process_group=0)  # noqa: S603 - ours


def _raise(told: Mapping[str, Any]) -> None:
    """Raise the error that a child told, if it is one."""
    if "system" in told:
        raise OSError(*told["system"])
    if "error" in told:
        raise failures.read_error(told["error"])


def run(name: str, checkpoint: Path, out: Path, tell: Callable[[Mapping[str, Any]], object]) -> Mapping[str, Any]:
    """The work of the child: tells the progress, and returns what is to be told at the end."""

    def progressed(stage: str, share: float) -> None:
        tell({"stage": stage, "share": share})

    try:
        files = CONVERSIONS[name].convert(checkpoint, out, progressed)
    except OSError as error:
        return {"system": [error.errno, error.strerror or str(error), error.filename and str(error.filename)]}
    except Exception as error:  # the checkpoint is not ours: its settings and shapes may be anything
        if not isinstance(error, EdgeserveError):
            what = f"{type(error).__name__}: {error}"
            error = StoreError(f"the checkpoint in {checkpoint} cannot be converted ({what}); is it complete?")
        return {"error": failures.write_error(error, name)}
    return {"files": {role: str(path) for role, path in files.items()}}


def main(name: str, checkpoint: str, out: str) -> None:
    """Convert, and tell the server in lines of JSON. What libraries print goes to stderr."""
    os.nice(NICE)
    lifeline.end_with(sys.stdin.fileno())
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as server:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

        def tell(what: Mapping[str, Any]) -> None:
            print(json.dumps(what), file=server, flush=True)

        tell(run(name, Path(checkpoint), Path(out), tell))


if __name__ == "__main__":
    main(*sys.argv[1:])
