"""Files of a converted Whisper: its graphs exist in float32, and with matrices in int8."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.errors import ConfigError, EngineFailure
from edgeserve.system import cpu

PARTS = ("encoder", "cross", "decoder")
INT8 = "_int8"
"""Suffix of the roles of quantised graphs (edgeserve/models/convert/whisper.py)."""
FORMAT = 4
"""Version of the files that this engine reads (edgeserve/models/convert/conversions.py)."""
ALWAYS = ("decoder_data", "config", "tokenizer")
"""Roles that both forms need: token embeddings are read from the float32 decoder's data."""
CHOICES = ("auto", "none", "int8")
VNNI = {"avx512_vnni", "avx_vnni"}


def check(spec: ModelSpec) -> None:
    """Raises ConfigError for a value of ``quantization`` that Whisper does not have."""
    if (value := spec.options.get("quantization", "auto")) not in CHOICES:
        raise ConfigError(
            f"[{spec.job}] quantization = {value!r}: expected one of {', '.join(CHOICES)} for Whisper",
            param="quantization",
        )


def graphs(spec: ModelSpec) -> Iterator[tuple[Path, list[Path]]]:
    """Each graph with the files of its weights. Raises EngineFailure when the model lacks one of them."""
    roles = _roles(spec)
    if missing := {*roles, *ALWAYS} - set(spec.files):
        raise EngineFailure(f"{spec.name} lacks {', '.join(sorted(missing))}; pull it again")
    for role in roles:
        yield spec.files[role], [spec.files[f"{role}_data"]] if f"{role}_data" in spec.files else []


def shape(spec: ModelSpec) -> dict[str, Any]:
    """The contents of ``config``; empty before the model is pulled. Raises EngineFailure for a damaged file."""
    config = spec.files.get("config")
    if config is None or not config.is_file():
        return {}
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EngineFailure(f"{config}: not valid JSON ({error}); pull the model again") from error
    return found if isinstance(found, dict) else {}


def weights(spec: ModelSpec) -> list[Path]:
    """The existing files that weights are mapped from."""
    named = (spec.files.get(f"{role}_data") for role in _roles(spec))
    return [path for path in named if path is not None and path.is_file()]


def _roles(spec: ModelSpec) -> list[str]:
    return [part + INT8 * _int8(spec) for part in PARTS]


def _int8(spec: ModelSpec) -> bool:
    chosen = spec.options.get("quantization", "auto")
    return chosen == "int8" or (chosen == "auto" and spec.device in ("auto", "cpu") and exact())


def exact() -> bool:
    """Whether ONNX Runtime's kernels add products of 8-bit numbers exactly on this processor.

    On x86 they do so with VNNI. Without VNNI, they add pairs of products in 16 bits, and a larger sum is cut off.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    return not VNNI.isdisjoint(cpu.features())
