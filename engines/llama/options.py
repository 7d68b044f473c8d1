"""Options of the llama.cpp engines, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgeserve.errors import ConfigError
from edgeserve.jobs import CHAT, PICTURES
from edgeserve.settings import Reader, key

DEFAULT_CONTEXT = 2048
SHARES = "a list of shares, none below 0 and not all 0, such as [3, 1]"


@dataclass(frozen=True, slots=True)
class LlamaOptions:
    """Keys of [llm], [vision] and [embedding] in models.toml that belong to llama.cpp.

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

    context: int = key(DEFAULT_CONTEXT, low=64, special={0: "as many as memory allows"})
    parallel: int = key(4, low=1, high=256, only=CHAT)  # LLAMA_MAX_SEQ
    max_new_tokens: int = key(4096, low=1, high=1_000_000, only=CHAT)
    temperature: float = key(0.7, low=0, high=2, only=CHAT)
    top_p: float = key(0.95, low=0, high=1, only=CHAT)
    top_k: int = key(40, low=0, high=100_000, only=CHAT)
    min_p: float = key(0.05, low=0, high=1, only=CHAT)
    repeat_penalty: float = key(1.0, low=0.01, high=10, only=CHAT)  # llama.cpp divides by it
    system: str = key("", only=CHAT)
    kv_type: Literal["f16", "q8_0", "q4_0"] = key("f16")
    window: Literal["sliding", "full"] = key("sliding", only=CHAT)
    flash_attention: Literal["auto", "on", "off"] = key("auto")
    threads_batch: int = key(0, low=0, high=512)  # GGML_MAX_N_THREADS
    gpu_layers: int = key(-1, low=0, special={-1: "all"})
    split_mode: Literal["layer", "row", "none"] = key("layer")
    main_gpu: int = key(0, low=0)
    tensor_split: tuple[float, ...] = key((), low=0, words=SHARES)
    repack: Literal["auto", "on", "off"] = key("auto")
    prefix_cache_mb: int = key(64, low=0, only=CHAT)
    prefix_cache_disk_mb: int = key(0, low=0, only=CHAT)
    prefix_cache_dir: str = key("", only=CHAT)
    image_max_tokens: int = key(0, low=0, only=PICTURES)
    image_min_tokens: int = key(0, low=0, only=PICTURES)
    pooled: bool = False


def context_size(options: LlamaOptions, trained: int) -> int:
    """Tokens of the context of a model trained on ``trained`` (0: unknown)."""
    wanted = options.context or trained or DEFAULT_CONTEXT
    return min(wanted, trained) if trained else wanted


def read_options(job: str, given: Mapping[str, object]) -> LlamaOptions:
    """Raises ConfigError naming the key."""
    options = LlamaOptions(**Reader().read(LlamaOptions, job, given), pooled=job == "embedding")
    if options.tensor_split and not any(options.tensor_split):
        raise ConfigError(f"[{job}] tensor_split = {given['tensor_split']}: expected {SHARES}", param="tensor_split")
    if options.kv_type != "f16" and options.flash_attention == "off":
        raise ConfigError(
            f'[{job}] kv_type = "{options.kv_type}" needs flash attention, which flash_attention = "off" forbids: '
            'set flash_attention = "auto", or kv_type = "f16"',
            param="kv_type",
        )
    if options.image_max_tokens and options.image_min_tokens > options.image_max_tokens:
        raise ConfigError(
            f"[{job}] image_min_tokens = {options.image_min_tokens}: expected at most image_max_tokens, "
            f"{options.image_max_tokens}",
            param="image_min_tokens",
        )
    return options
