"""The small JSON files beside an encoder's graph: its shape, and the rows that make its vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from edgeserve.dataclass import dataclass
from edgeserve.errors import EngineFailure

Pooling = Literal["mean", "cls", "last"]
MODES: Mapping[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
"""Keys of 1_Pooling/config.json (sentence-transformers, models/Pooling.py)."""
OFFSET = frozenset({"camembert", "mpnet", "roberta", "xlm-roberta", "xlm-roberta-xl"})
"""Types whose first positions stand for padding (transformers, create_position_ids_from_input_ids)."""
LARGEST = 1 << 20
LARGEST_FILE = 1 << 20
"""Bytes of a configuration. Such files have a few thousand."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers that decide texts and memory. ``positions``: tokens of a text at most. ``vocabulary``: tokens."""

    positions: int
    width: int
    heads: int
    feed_forward: int
    vocabulary: int


def read_shape(path: Path) -> Shape:
    """The shape in config.json. Raises EngineFailure naming the file."""
    found = _read(path)

    def number(default: int, *names: str) -> int:
        value = next((found[name] for name in names if name in found), default)
        if not isinstance(value, int) or not 0 < value <= LARGEST:
            raise EngineFailure(f"{path}: {names[0]} is {value!r}, expected a whole number from 1 to {LARGEST}")
        return value

    width = number(768, "hidden_size", "dim", "d_model")
    positions = number(512, "max_position_embeddings", "n_positions")
    if found.get("model_type") in OFFSET:
        positions -= _padding(found.get("pad_token_id"), positions, path) + 1
    return Shape(
        positions,
        width,
        number(12, "num_attention_heads", "n_heads"),
        number(4 * width, "intermediate_size", "hidden_dim"),
        number(30_522, "vocab_size"),
    )


def read_type(path: Path) -> str:
    """The type of the model in config.json, such as "bert"; empty without one. Raises EngineFailure naming the file."""
    found = _read(path).get("model_type")
    return found if isinstance(found, str) else ""


def _padding(value: Any, positions: int, path: Path) -> int:
    """The padding token, behind which positions are counted; 1 without one. Raises EngineFailure naming the file."""
    if value is None:
        value = 1
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < positions - 1:
        text = f"expected a whole number from 0 to {positions - 2}, as the model has {positions} positions"
        raise EngineFailure(f"{path}: pad_token_id is {value!r}, {text}")
    return value


def read_pooling(path: Path | None) -> Pooling:
    """The pooling in 1_Pooling/config.json; the mean without that file. Raises EngineFailure naming the file."""
    if path is None:
        return "mean"
    found = _read(path)
    modes = [name for name, value in found.items() if name.startswith("pooling_mode_") and value is True]
    if len(modes) != 1 or modes[0] not in MODES:
        text = f"pools by {' and '.join(modes) or 'nothing'}; expected one of {', '.join(MODES)}"
        raise EngineFailure(f'{path}: {text}; or set pooling = "mean", "cls" or "last" in models.toml')
    return MODES[modes[0]]


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise EngineFailure(f"{path}: {size} bytes, expected at most {LARGEST_FILE}; pull the model again")
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EngineFailure(f"{path}: no such file; pull the model again with `edgeserve pull`") from None
    except (OSError, ValueError, RecursionError) as error:
        raise EngineFailure(f"{path}: no JSON that can be read ({error}); pull the model again") from error
    if not isinstance(found, dict):
        raise EngineFailure(f"{path}: no JSON object; pull the model again")
    return cast(Mapping[str, Any], found)
