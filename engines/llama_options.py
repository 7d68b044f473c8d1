"""Options of the llama.cpp engines, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgeserve.errors import ConfigError

KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class LlamaOptions:
    """Keys of [llm] and [vision] in models.toml that belong to llama.cpp.

    context          tokens of the context; more than the model was trained on is cut to that
    parallel         answers made at once, which share the context; more wait
    max_new_tokens   hard cap of one answer (reference/eviction-versus-limits.md: 4,096)
    temperature, top_p, top_k, min_p, repeat_penalty   defaults where a request gives none
    system           system message of conversations that bring none; empty: what the model's template does
    kv_type          precision of the key-value cache, "f16" or "q8_0" (half the memory)
    flash_attention  "auto": where the model and the device can. On the processor it is some 15% faster, and rounds
                     otherwise for many tokens than for one
    gpu_layers       layers on the accelerator; -1: all when there is one
    repack           "auto" and "off": weights are used where they are mapped; "on": while hot, in a private copy
                     reordered for this processor (about 25% faster for some quantisations; made anew on the way up)
    prefix_cache_mb  MB of key-value states kept of conversations that were put aside or parked; 0 keeps none
    image_max_tokens, image_min_tokens   tokens one picture may take; 0: the model's own
    """

    context: int = 2048
    parallel: int = 4
    max_new_tokens: int = 4096
    temperature: float = 0.7
    top_p: float = 0.95
    top_k: int = 40
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    system: str = ""
    kv_type: Literal["f16", "q8_0"] = "f16"
    flash_attention: Literal["auto", "on", "off"] = "auto"
    gpu_layers: int = -1
    repack: Literal["auto", "on", "off"] = "auto"
    prefix_cache_mb: int = 64
    image_max_tokens: int = 0
    image_min_tokens: int = 0


def context_size(options: LlamaOptions, trained: int) -> int:
    """Tokens of the context of a model trained on ``trained`` (0: unknown)."""
    return min(options.context, trained) if trained else options.context


CHOICES = {"kv_type": ("f16", "q8_0"), "repack": ("auto", "on", "off"), "flash_attention": ("auto", "on", "off")}
LOWEST = {
    "context": 64,
    "parallel": 1,
    "max_new_tokens": 1,
    "temperature": 0,
    "top_p": 0,
    "top_k": 0,
    "min_p": 0,
    "repeat_penalty": 0,
}
LOWEST |= dict.fromkeys(("prefix_cache_mb", "image_max_tokens", "image_min_tokens"), 0)


def read_options(job: str, given: Mapping[str, object]) -> LlamaOptions:
    """Raises ConfigError naming the key."""
    fields = {one.name: one for one in dataclasses.fields(LlamaOptions)}
    values: dict[str, object] = {}
    for name, value in given.items():
        if name not in fields:
            raise ConfigError(f"[{job}] {name} is not a known setting; expected one of: {', '.join(fields)}")
        kind = type(fields[name].default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not kind:
            raise ConfigError(f"[{job}] {name} = {value!r}: expected {KINDS[kind]}")
        if name in CHOICES and value not in CHOICES[name]:
            raise ConfigError(f"[{job}] {name} = {value!r}: expected one of {', '.join(CHOICES[name])}")
        if name in LOWEST and isinstance(value, int | float) and value < LOWEST[name]:
            raise ConfigError(f"[{job}] {name} = {value!r}: expected at least {LOWEST[name]}")
        values[name] = value
    return dataclasses.replace(LlamaOptions(), **values)  # type: ignore[arg-type]
