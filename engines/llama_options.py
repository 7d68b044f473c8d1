"""Options of the llama.cpp engines, checked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgeserve.errors import ConfigError

KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class LlamaOptions:
    """Keys of [llm] and [vision] in models.toml that belong to llama.cpp.

    context          tokens of the context; more than the model was trained on is cut to that. 0: as many as it was
                     trained on, less what the governor has no room for (``shed``) when the context is made
    parallel         answers made at once, which share the context; more wait
    max_new_tokens   hard cap of one answer (reference/eviction-versus-limits.md: 4,096)
    temperature, top_p, top_k, min_p, repeat_penalty   defaults where a request gives none
    system           system message of conversations that bring none; empty: what the model's template does
    kv_type          precision of the key-value cache, "f16", "q8_0" (half the memory) or "q4_0" (a quarter; worse
                     answers); the last two need flash attention
    window           of models with a sliding window, the cache keeps "sliding": that window, or "full": all tokens,
                     which takes more memory and lets the last conversations go on from where they are edited
    flash_attention  "auto": where the model and the device can. On the processor it is some 15% faster, and rounds
                     otherwise for many tokens than for one
    threads_batch    threads that read prompts; 0: as many as ``threads``, which make the answers
    gpu_layers       layers on the accelerator; -1: all when there is one
    split_mode       over several accelerators: "layer" whole layers on each, "row" parts of each layer, "none" only one
    main_gpu         number of the accelerator that "none" uses, and that "row" computes small tensors on
    tensor_split     share of each accelerator, such as [3, 1]; empty: by their free memory
    repack           "auto" and "off": weights are used where they are mapped; "on": while hot, in a private copy
                     reordered for this processor (about 25% faster for some quantisations; made anew on the way up)
    prefix_cache_mb  MB of key-value states kept of conversations that were put aside or parked; 0 keeps none
    prefix_cache_disk_mb   MB of them on disk, once memory has no room for them or the engine closes; 0 keeps none
    prefix_cache_dir       where; empty: the folder "states" beside the model
    image_max_tokens, image_min_tokens   tokens one picture may take; 0: the model's own

    ``pooled``, which is no key: the context makes vectors of whole texts, as the model was trained to.
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
    kv_type: Literal["f16", "q8_0", "q4_0"] = "f16"
    window: Literal["sliding", "full"] = "sliding"
    flash_attention: Literal["auto", "on", "off"] = "auto"
    threads_batch: int = 0
    gpu_layers: int = -1
    split_mode: Literal["layer", "row", "none"] = "layer"
    main_gpu: int = 0
    tensor_split: tuple[float, ...] = ()
    repack: Literal["auto", "on", "off"] = "auto"
    prefix_cache_mb: int = 64
    prefix_cache_disk_mb: int = 0
    prefix_cache_dir: str = ""
    image_max_tokens: int = 0
    image_min_tokens: int = 0
    pooled: bool = False


DEFAULT_CONTEXT = 2048
CHOICES = {
    "kv_type": ("f16", "q8_0", "q4_0"),
    "window": ("sliding", "full"),
    "repack": ("auto", "on", "off"),
    "flash_attention": ("auto", "on", "off"),
    "split_mode": ("layer", "row", "none"),
}
LEAST_CONTEXT = 64
LOWEST = {"context": 0, "parallel": 1, "max_new_tokens": 1, "repeat_penalty": 0.01}
LOWEST |= dict.fromkeys(("temperature", "top_p", "top_k", "min_p", "threads_batch", "main_gpu"), 0)
LOWEST |= dict.fromkeys(("prefix_cache_mb", "prefix_cache_disk_mb", "image_max_tokens", "image_min_tokens"), 0)


def context_size(options: LlamaOptions, trained: int) -> int:
    """Tokens of the context of a model trained on ``trained`` (0: unknown)."""
    wanted = options.context or trained or DEFAULT_CONTEXT
    return min(wanted, trained) if trained else wanted


def read_options(job: str, given: Mapping[str, object]) -> LlamaOptions:
    """Raises ConfigError naming the key."""
    fields = {one.name: one for one in dataclasses.fields(LlamaOptions) if one.name != "pooled"}
    values: dict[str, object] = {"pooled": job == "embedding"}
    for name, value in given.items():
        if name not in fields:
            raise ConfigError(f"[{job}] {name} is not a known setting; expected one of: {', '.join(fields)}")
        try:
            values[name] = _checked(name, value, type(fields[name].default))
        except ValueError as error:
            raise ConfigError(f"[{job}] {name} = {value!r}: expected {error}") from None
    options = dataclasses.replace(LlamaOptions(), **values)  # type: ignore[arg-type]
    if options.kv_type != "f16" and options.flash_attention == "off":
        raise ConfigError(
            f'[{job}] kv_type = "{options.kv_type}" needs flash attention, which flash_attention = "off" forbids: '
            'set flash_attention = "auto", or kv_type = "f16"'
        )
    return options


def _checked(name: str, value: object, kind: type) -> object:
    """The value as its field holds it. Raises ValueError saying what was expected."""
    if kind is tuple:
        return _shares(value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ValueError(KINDS[kind])
    if name in CHOICES and value not in CHOICES[name]:
        raise ValueError(f"one of {', '.join(CHOICES[name])}")
    # Written so that a NaN, which no comparison holds for, is refused too.
    if name in LOWEST and isinstance(value, int | float) and not value >= LOWEST[name]:
        raise ValueError(f"at least {LOWEST[name]}")
    if name == "context" and 0 < int(str(value)) < LEAST_CONTEXT:
        raise ValueError(f"at least {LEAST_CONTEXT}, or 0 for as many as memory allows")
    return value


def _shares(value: object) -> tuple[float, ...]:
    """Of each accelerator. Raises ValueError."""
    expected = "a list of shares, none below 0 and not all 0, such as [3, 1]"
    if not isinstance(value, list | tuple) or not all(type(one) in (int, float) for one in value):
        raise ValueError(expected)
    shares = tuple(map(float, value))
    if shares and not (all(0 <= one < math.inf for one in shares) and any(shares)):
        raise ValueError(expected)
    return shares
