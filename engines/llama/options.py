"""Options of the llama.cpp engines."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.engine import ModelSpec
from edgeserve.errors import ConfigError
from edgeserve.jobs import CHAT, PICTURES
from edgeserve.settings import Reader, key
from edgeserve.splits.node import MOST, read_node

log = logging.getLogger("edgeserve.llama")

BATCH = 256
"""Tokens of one call by default, at most. A cancel waits for one call, and the compute buffer grows with the batch."""
BESIDE = 4
"""Answers of a chat model beyond ``parallel`` at most, each of a client with no other."""
DEFAULT_CONTEXT = 2048
"""Tokens of a context of automatic size that the model must have, and of one that reads whole texts."""
MOST_CONTEXT = 32_768
"""Tokens of a context of automatic size, at most. The prompts of agents have 2,000 to 16,000."""
CONTEXT_STEP = 256
"""Tokens. llama.cpp rounds the size of a context up to a multiple of this."""
BY_DISK = MappingProxyType({"auto": "a bound by the free disk"})
LONGEST_DRAFT = 16
"""Tokens of all drafts in one call at most."""
DRAFT_LOGITS = 8 << 20
"""Bytes of the logits of a draft at most: large vocabularies take 1 MB a token."""
POOLED = ("embedding", "rerank")
"""Jobs that read whole texts at once."""
TUNED = "tuned"
"""Option that no table has: settings that were measured to be the fastest here. They fill in for keys whose value
leaves the choice to the machine."""
AUTOMATIC: Mapping[str, object] = MappingProxyType(
    {"repack": "auto", "flash_attention": "auto", "threads_batch": 0, "batch": 0}
)
"""These keys, with that value."""
SHARES = "a list of shares, none below 0 and not all 0, such as [3, 1]"


@dataclass(frozen=True, slots=True)
class LlamaOptions:
    """Keys of [llm], [vision], [embedding] and [rerank] in models.toml that belong to llama.cpp.

    context          tokens of the context, at most the trained context of the model. 0: ``MOST_CONTEXT``, or the
                     trained context if that is smaller, less the memory that the governor takes (``shed``) before the
                     context is made. Jobs that read whole texts: ``DEFAULT_CONTEXT`` where it is left out
    parallel         answers under way at once; they share the context. More requests wait, but for the first one of
                     each other client: there are a few sequences beyond these (``BESIDE``)
    max_new_tokens   most tokens of one answer
    temperature, top_p, top_k, min_p, repeat_penalty   defaults for requests that give none
    system           system message of conversations without one; empty: the template's own
    kv_type          type of the KV cache: "f16", "q8_0" (half the memory) or "q4_0" (a quarter; worse answers). The
                     last two need flash attention
    window           a model with a sliding window caches that window ("sliding") or all tokens ("full"). "full" takes
                     more memory, but an edited conversation continues from its edit
    flash_attention  "auto": if the model and the device support it. On the processor it is some 15% faster. It rounds
                     a batch of tokens differently from a single token
    threads_batch    threads that decode prompts; 0: as many as ``threads``, which decode answers
    batch            tokens that one call reads, at most; 0: ``BATCH``, or what was measured to be faster here. Models
                     that see pictures take ``BATCH`` at least
    gpu_layers       layers on the accelerator; -1: all, if there is an accelerator
    split_mode       over several accelerators: "layer" whole layers on each, "row" parts of each layer, "none" only one
    main_gpu         number of the accelerator that "none" uses, and that "row" computes small tensors on
    tensor_split     share of each accelerator, such as [3, 1]; empty: by their free memory
    repack           "off" uses the mapped weights. "on" makes a private copy while hot, reordered for this processor
                     (faster for some quantisations; made again each time the engine becomes hot). "auto": the form that
                     was measured to be faster here, while there is room for a copy; without a measurement, as "off"
    prefix_cache_mb  MB of saved states in memory; 0 keeps none
    prefix_cache_disk_mb   MB of saved states on disk, from memory without room and closed engines; 0 keeps none.
                           "auto": all models with "auto" share a bound by the free disk
    prefix_cache_dir       folder of the states on disk; empty: the folder that the server names, and none without one
    pooling          rows of a text that make its vector: "mean" of all, "cls" the first, "last"; "auto": the file's
    image_max_tokens, image_min_tokens   tokens of one picture; 0: the model's own numbers
    nodes            workers on other machines that hold the later layers, such as ["box2:50052"]; such a model keeps no
                     saved states
    speculation      "auto": guessed tokens are decoded beside the next one where that pays; "off": never

    These are no keys:

    pooled           the context makes one row of each text
    ranked           that row is the relevance of a document, by the model's ranking head
    drafting         a draft model guesses tokens
    reordered        the engine computes with a private copy of the weights: by ``repack``, or by ``TUNED``
    """

    context: int = key(0, low=64, special={0: "as many as memory allows"})
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
    batch: int = key(0, low=32, high=2048, special={0: "256, or as measured"}, only=CHAT)
    gpu_layers: int = key(-1, low=0, special={-1: "all"})
    split_mode: Literal["layer", "row", "none"] = key("layer")
    main_gpu: int = key(0, low=0)
    tensor_split: tuple[float, ...] = key((), low=0, words=SHARES)
    repack: Literal["auto", "on", "off"] = key("auto")
    prefix_cache_mb: int = key(64, low=0, only=CHAT)
    prefix_cache_disk_mb: int | Literal["auto"] = key("auto", low=0, special=BY_DISK, only=CHAT)
    prefix_cache_dir: str = key("", only=CHAT)
    image_max_tokens: int = key(0, low=0, only=PICTURES)
    image_min_tokens: int = key(0, low=0, only=PICTURES)
    pooling: Literal["auto", "mean", "cls", "last"] = key("auto", only=("embedding",))
    speculation: Literal["auto", "off"] = key("auto", only=CHAT)
    nodes: tuple[str, ...] = key((), only=("llm",))
    pooled: bool = False
    ranked: bool = False
    reordered: bool = False
    drafting: bool = False


def context_size(options: LlamaOptions, trained: int) -> int:
    """Tokens of the context of a model with the trained context ``trained`` (0: unknown)."""
    wanted = options.context or min(trained or DEFAULT_CONTEXT, MOST_CONTEXT)
    return min(wanted, trained) if trained else wanted


def warn_of_length(spec: ModelSpec, options: LlamaOptions, trained: int) -> None:
    """Log a warning for a configured context beyond the trained one."""
    if "context" in spec.options and options.context > trained > 0:
        text = "%s: context = %d is more than the %d tokens that the model was trained on; it has %d"
        log.warning(text, spec.name, options.context, trained, trained)


def batch_size(options: LlamaOptions, context: int) -> int:
    """Tokens of one call at most, in a context of so many tokens: at least one for each answer under way."""
    return min(max(options.batch or BATCH, options.parallel + BESIDE), context)


def longest_draft(options: LlamaOptions, vocabulary: int) -> int:
    """Tokens of all drafts in one call, for a model with ``vocabulary`` tokens; 0 with speculation off."""
    if options.pooled or options.speculation == "off":
        return 0
    return min(LONGEST_DRAFT, DRAFT_LOGITS // (4 * max(1, vocabulary)))


def read_options(job: str, given: Mapping[str, object]) -> LlamaOptions:
    """The options of a job's table in models.toml. Raises ConfigError naming the key."""
    read = Reader().read(LlamaOptions, job, {name: value for name, value in given.items() if name != TUNED})
    if job in POOLED:  # each call takes buffers for the whole context
        read.setdefault("context", DEFAULT_CONTEXT)
    options = LlamaOptions(**read, pooled=job in POOLED, ranked=job == "rerank")
    options = _with_tuned(options, given.get(TUNED))
    if job in PICTURES:  # some models see the whole of a picture only in one call, and `tune` measures text alone
        options = dataclasses.replace(options, batch=max(options.batch, BATCH))
    if options.tensor_split and not any(options.tensor_split):
        raise ConfigError(f"[{job}] tensor_split = {given['tensor_split']}: expected {SHARES}", param="tensor_split")
    _check_nodes(job, options.nodes)
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


def _check_nodes(job: str, nodes: Sequence[str]) -> None:
    """Raises ConfigError for a node that is no address, for one named twice, and for too many."""
    label, names = f"[{job}] nodes", list[str]()
    for one in nodes:
        try:
            names.append(str(read_node(one)))
        except ValueError as error:
            raise ConfigError(f"{label} = {one!r}: expected {error}", param="nodes") from None
    if twice := [one for one in names if names.count(one) > 1]:
        raise ConfigError(f"{label}: {twice[0]} is named twice", param="nodes")
    if len(names) > MOST:
        raise ConfigError(f"{label}: {len(names)} machines; llama.cpp takes {MOST}", param="nodes")


def _with_tuned(options: LlamaOptions, tuned: object) -> LlamaOptions:
    """The options with the measured values of all keys that are left to the machine. ``repack`` itself stays "auto"."""
    found = tuned if isinstance(tuned, Mapping) else {}
    taken = {name: found[name] for name, auto in AUTOMATIC.items() if name in found and getattr(options, name) == auto}
    if options.kv_type != "f16":  # needs flash attention
        taken.pop("flash_attention", None)
    reordered = "on" in (options.repack, taken.pop("repack", ""))
    return dataclasses.replace(options, reordered=reordered, **taken)
