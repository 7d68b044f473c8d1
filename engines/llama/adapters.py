"""LoRA adapters: their check before llama.cpp reads them, and their handles while a context may use them.

llama.cpp refuses most unfit files itself, but ends the process on some. The check finds those.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeserve.engine import Adapter, ModelSpec
from edgeserve.engines.llama.fingerprint import Mark, fingerprint, mark
from edgeserve.engines.llama.gguf import FLOAT32, TEXT, Contents, Tensor, read_contents
from edgeserve.engines.llama.runtime import error_details, llama
from edgeserve.engines.llama.state_index import client_of, scope_of
from edgeserve.errors import EngineFailure, InvalidRequest

Active = tuple[tuple[int, float], ...]
"""Numbers and scales of the adapters that one answer uses, the lowest number first."""

TYPES = {0: 4.0, 1: 2.0, 30: 2.0, 8: 34 / 32}
"""Bytes of one number of an adapter, by ggml's type: F32, F16, BF16, Q8_0."""
EMBEDDING = "token_embd.weight"
WORDS = {"general.type": "adapter", "adapter.type": "lora"}
"""Entries that a LoRA adapter must have."""


def check(path: Path, base: Path) -> None:
    """Check the adapter in ``path`` against the model in ``base``. Raises EngineFailure, which names the file.

    Files that passed are read again only after they changed.
    """
    _check(path, base, mark(path), mark(base))


@functools.lru_cache(64)
def _check(path: Path, base: Path, *marks: Mark) -> None:
    try:
        adapter = read_contents(path)
    except EngineFailure as error:
        text = f"{error.message}; llama.cpp's convert_lora_to_gguf.py writes a LoRA adapter as GGUF"
        raise EngineFailure(text) from None
    model = read_contents(base)
    architecture = model.header.get("general.architecture")
    for key, wanted in {**WORDS, "general.architecture": architecture}.items():
        found = adapter.header.get(key)
        if found != wanted or adapter.kinds[key] != TEXT:
            raise EngineFailure(f"{path}: no LoRA adapter of {base.name}: its {key} is {found!r}, not {wanted!r}")
    if adapter.kinds.get("adapter.lora.alpha", FLOAT32) != FLOAT32:
        raise EngineFailure(f"{path}: its adapter.lora.alpha is no 32-bit float")
    if "adapter.alora.invocation_tokens" in adapter.kinds:
        raise EngineFailure(f"{path}: an activated LoRA (aLoRA), which this server does not support")
    _check_tensors(path, adapter.tensors, model, base)


def _check_tensors(path: Path, tensors: Mapping[str, Tensor], model: Contents, base: Path) -> None:
    size, held = path.stat().st_size, 0.0
    changed = {name.rpartition(".lora_")[0] for name in tensors if name.endswith((".lora_a", ".lora_b"))}
    if not changed:
        raise EngineFailure(f"{path}: changes no weights")
    for name in changed:
        a, b = (tensors.get(f"{name}.lora_{part}") for part in "ab")
        if a is None or b is None:
            raise EngineFailure(f"{path}: lacks one half of the change of {name}")
        _check_pair(path, name, a, b, model, base)
        held += sum(TYPES[one.kind] * one.sizes[0] * one.sizes[1] * one.sizes[2] * one.sizes[3] for one in (a, b))
    if held > size:
        raise EngineFailure(f"{path}: its tensors take {held:.0f} bytes, and the file has {size}; copy it again")


def _check_pair(path: Path, name: str, a: Tensor, b: Tensor, model: Contents, base: Path) -> None:
    """A has (columns, rank) numbers and B (rank, rows), the fastest first, for each expert."""
    if name == EMBEDDING:  # a model without an output matrix computes with it in a second way, and llama.cpp aborts
        raise EngineFailure(f"{path}: changes the token embedding, which this server does not support")
    if a.kind not in TYPES or b.kind not in TYPES:
        raise EngineFailure(f"{path}: {name} is stored as ggml type {a.kind} or {b.kind}; use F32, F16, BF16 or Q8_0")
    split = "split.count" in model.header  # the other files of the model have the other tensors
    weight = model.tensors.get(name)
    if weight is None and not split:
        raise EngineFailure(f"{path}: changes {name}, which {base.name} does not have; it was made for another model")
    wanted = weight.sizes if weight is not None else (a.sizes[0], b.sizes[1], 1, 1)
    fits = a.sizes[1] == b.sizes[0] > 0 and a.sizes[2:] == b.sizes[2:] == wanted[2:]
    if not fits or (a.sizes[0], b.sizes[1]) != wanted[:2]:
        text = f"its change of {name} has sizes {a.sizes} and {b.sizes}, which do not fit {wanted}"
        raise EngineFailure(f"{path}: {text}; it was made for another model")


class Adapters:
    """The adapters of one mapped model. llama.cpp keeps them in private memory while anybody ``hold``s them.

    All of them must be there before a context is made, since llama.cpp sizes its graph by them.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self._prints: list[str] = []
        self._handles: list[Any] = []
        self._users = 0
        self._lock = threading.Lock()

    def hold(self, model: Any) -> None:
        """Count one more user; the first one reads the files. Raises EngineFailure. ``model``: llama.cpp's pointer."""
        with self._lock:
            for path in () if self._users else self.paths:
                self._read(model, path)
            self._users += 1

    def _read(self, model: Any, path: Path) -> None:
        try:
            made_of = fingerprint(path).hex()
        except OSError as error:
            self._free()
            raise EngineFailure(f"{path}: {error.strerror}") from error
        handle = llama().llama_adapter_lora_init(model, str(path).encode())
        if not handle:
            self._free()
            raise EngineFailure(f"{path}: llama.cpp cannot apply it{error_details()}")
        self._handles.append(handle)
        self._prints.append(made_of)

    def release(self) -> None:
        """Count one user less; the last one frees the memory. No context may use it any more."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._free()

    def _free(self) -> None:
        for handle in self._handles:
            llama().llama_adapter_lora_free(handle)
        self._handles, self._prints = [], []

    def use(self, context: Any, active: Active) -> bool:
        """Let a context (llama.cpp's pointer) apply these adapters and no others. False when llama.cpp refuses."""
        runtime, count = llama(), len(active)
        pointers = (runtime.llama_adapter_lora_p_ctypes * count)(*(self._handles[number] for number, _ in active))
        scales = (ctypes.c_float * count)(*(scale for _, scale in active))
        return bool(runtime.llama_set_adapters_lora(context, pointers, count, scales) == 0)

    def salted(self, salt: str, active: Active) -> str:
        """The salt of a prompt that these adapters read: a KV cache that they made serves no other prompt."""
        if not active:
            return salt
        made, scope = [(self._prints[number], scale) for number, scale in active], scope_of(salt)
        mark = hashlib.sha256(json.dumps([scope, made]).encode()).hexdigest()
        return f"{client_of(salt)}/{client_of(scope)}/{mark}"


def paths_of(spec: ModelSpec) -> tuple[Path, ...]:
    """The files of the adapters of a model."""
    return tuple(spec.files[one.role] for one in spec.adapters)


def size_of(spec: ModelSpec) -> int:
    """Bytes that the adapters take in memory: their files'. Missing files count nothing."""
    return sum(path.stat().st_size for path in paths_of(spec) if path.is_file())


def active(adapters: Sequence[Adapter], wanted: Iterable[tuple[str, float]] | None) -> Active:
    """The adapters that a request uses. Raises InvalidRequest for a role that the model does not have."""
    numbers = {one.role: number for number, one in enumerate(adapters)}
    if wanted is None:
        wanted = [(one.role, one.scale) for one in adapters if not one.name]
    chosen: dict[int, float] = {}
    for role, scale in wanted:
        if role not in numbers:
            raise InvalidRequest(f"this model has no adapter {role!r}", param="lora")
        chosen[numbers[role]] = scale
    return tuple(sorted((number, scale) for number, scale in chosen.items() if scale))
