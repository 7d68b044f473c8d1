"""Models for stores under test: tiny files, and the folders of a store."""

from __future__ import annotations

from pathlib import Path

from edgeserve.jobs import INFO
from edgeserve.models import manifest
from edgeserve.models.store import Store
from edgeserve.models.wanted import Kind, Wanted

GGUF = b"GGUF" + bytes(3000)
ONNX = b"\x08\x0a" + bytes(2000)


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
