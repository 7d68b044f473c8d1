"""Writes one ONNX model as the runtime would hold it. A child process does so, and returns all its memory by ending:

    python -m edgeserve.engines.onnx.optimise SOURCE FOLDER FORM [rows]

The process ends with 0, with REFUSED, or with FAILED. The last line of stderr is the reason.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

from edgeserve.engines.onnx import rows as onnx_rows
from edgeserve.engines.onnx import session
from edgeserve.errors import EngineFailure

FAILED, REFUSED = 1, 3
EXTERNAL_FROM_BYTES = 1024
"""Smallest weights that are written outside the graph."""
FULL_DISK_BYTES = 1 << 20
"""Free disk below which a failure is put down to a full disk."""
FIRST_TO_END = "1000"
"""Largest oom_score_adj (proc(5))."""


def main(arguments: list[str]) -> int:
    source, folder, form, *changes = Path(arguments[0]), Path(arguments[1]), *arguments[2:]
    _end_before_the_server()
    try:
        optimise(source, folder, prepacked=form == "prepacked", rows="rows" in changes)
    except EngineFailure as error:
        full = shutil.disk_usage(folder).free < FULL_DISK_BYTES
        print("the disk is full" if full else error.message, file=sys.stderr)
        return FAILED if full else REFUSED
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return 0


def optimise(source: Path, folder: Path, *, prepacked: bool, rows: bool = False) -> None:
    """Write graph and weights to ``folder``, then open them once as a check. Raises EngineFailure.

    ``prepacked``: each weight is written twice, also in the order that this machine's kernels read. ``rows``: the graph
    gives rows (engines/onnx/rows.py).
    """
    settings = session.options()
    settings.optimized_model_filepath = str(folder / source.name)
    entries = {
        "session.optimized_model_external_initializers_file_name": f"{source.name}.data",
        "session.optimized_model_external_initializers_min_size_in_bytes": str(EXTERNAL_FROM_BYTES),
        "session.save_external_prepacked_constant_initializers": str(int(prepacked)),
    }
    for name, value in entries.items():
        settings.add_session_config_entry(name, value)
    session.create(source, settings)
    if rows:
        onnx_rows.give(folder / source.name)
    session.session(folder / source.name, optimised=True, mapped=not prepacked)


def _end_before_the_server() -> None:
    """Ask Linux to end this process first when memory runs out. Other systems choose for themselves."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_END, encoding="ascii")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
