"""Models for stores under test: tiny files, and the folders of a store."""

from __future__ import annotations

from edgeserve.models.store import Store

GGUF = b"GGUF" + bytes(3000)
ONNX = b"\x08\x0a" + bytes(2000)


def left(store: Store) -> list[str]:
    return sorted(path.name for path in store.root.iterdir() if not path.name.startswith(".lock"))
