"""Models for stores under test: tiny files, and the folders of a store."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.jobs import INFO
from edgeserve.models import manifest
from edgeserve.models.store import Store
from edgeserve.models.wanted import Kind, Wanted

GGUF = b"GGUF" + bytes(3000)
ONNX = b"\x08\x0a" + bytes(2000)
SERVER = """
import sys
from pathlib import Path
from edgeserve.models.served import ServedList
served = ServedList(Path(sys.argv[1]))
served.keep(["old", "older"])
served.keep(sys.argv[2:])
print(flush=True)
sys.stdin.read()
served.end()
"""


def hibari(size: int) -> dict[str, Any]:
    """The manifest of the starter's voice, whose one file has so many bytes."""
    return {
        "name": "hibari",
        "job": "tts",
        "engine": INFO["tts"].engine,
        "licence": "Apache-2.0",
        "source": "package hibari-tts 0.2.1",
        "options": {"family": "hibari"},
        "files": {"model": {"name": "hibari.onnx", "size": size, "sha256": "0"}},
    }


def left(store: Store) -> list[str]:
    return sorted(path.name for path in store.root.iterdir() if not path.name.startswith(".lock"))


def pulled(root: Path, name: str, job: Kind = "llm", engine: str = INFO["llm"].engine) -> Store:
    """A store in which a model of one file was pulled."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(GGUF)
    wanted = Wanted(name, job, engine, licence="Apache-2.0")
    manifest.write(folder, wanted, {"model": folder / "model.gguf"}, "http://127.0.0.1/model.gguf")
    return Store(root)


@contextlib.contextmanager
def other_server(root: Path, *names: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that serves models of the store."""
    command = [sys.executable, "-c", SERVER, str(root), *names]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
