"""Checkpoints in PyTorch's form before version 1.6, written without PyTorch."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import types
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

from edgeserve.models.convert.torch_tensors import MAGIC, PROTOCOL


class _Tensor:
    def __init__(self, key: str, array: Any) -> None:
        self.key, self.array = key, array

    def __reduce__(self) -> Any:
        shape = self.array.shape
        strides = tuple(one // self.array.itemsize for one in self.array.strides)
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2  # type: ignore[attr-defined]
        return rebuild, (_Stored(self.key, self.array), 0, shape, strides, False, OrderedDict())


class _Stored:
    def __init__(self, key: str, array: Any) -> None:
        self.key, self.array = key, array


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, _Stored):
            return None
        storage = getattr(sys.modules["torch"], "FloatStorage")  # noqa: B009
        return "storage", storage, value.key, "cpu", value.array.size, None


def _modules() -> dict[str, types.ModuleType]:
    """Stand-ins for PyTorch's modules, which the pickler looks names up in."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    storage = type("FloatStorage", (), {"__module__": "torch"})

    def rebuild(*_: Any) -> None: ...

    rebuild.__module__, rebuild.__qualname__, rebuild.__name__ = "torch._utils", *["_rebuild_tensor_v2"] * 2
    torch.FloatStorage, utils._rebuild_tensor_v2 = storage, rebuild  # type: ignore[attr-defined]
    return {"torch": torch, "torch._utils": utils}


def write_checkpoint(path: Path, tensors: Mapping[str, Any], part: str = "model_state", **others: Any) -> Path:
    """A checkpoint whose object holds ``tensors`` under ``part``, beside ``others``."""
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update(_modules())
    try:
        named = OrderedDict((name, _Tensor(str(at), array)) for at, (name, array) in enumerate(tensors.items()))
        out = io.BytesIO()
        for value in (MAGIC, PROTOCOL, {"little_endian": True}):
            pickle.dump(value, out, protocol=2)
        _Pickler(out, protocol=2).dump({part: named, **others})
        pickle.dump([str(at) for at in range(len(tensors))], out, protocol=2)
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            sys.modules.update({name: module} if module else {})
    for array in tensors.values():
        out.write(struct.pack("<q", array.size) + numpy.ascontiguousarray(array, "<f4").tobytes())
    path.write_bytes(out.getvalue())
    return path
