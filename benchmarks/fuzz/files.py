"""Cases for rooms that no route reaches: GGUF files and chat templates."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

from benchmarks.fuzz import corpus
from benchmarks.fuzz.case import Case, File
from benchmarks.fuzz.mutate import NUMBERS, WIDE, mutated

LOADED = 0.8
"""Share of the GGUF files that llama.cpp's own loader reads too."""
SCALARS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q", 11: "<q", 12: "<d"}
"""Types of numbers in GGUF, as struct packs them."""
TEXT, ARRAY = 8, 9
FLOATS = (0.0, -1.0, 0.5, 1e9, 1e300, math.inf, -math.inf, math.nan)
KEYS = (
    *(
        "general.architecture",
        "general.alignment",
        "llama.block_count",
        "llama.embedding_length",
        "llama.context_length",
    ),
    *("llama.attention.head_count", "llama.attention.head_count_kv", "llama.attention.key_length", "llama.vocab_size"),
    *(
        "llama.feed_forward_length",
        "llama.attention.sliding_window",
        "tokenizer.ggml.tokens",
        "tokenizer.chat_template",
    ),
    *("clip.projector_type", "clip.vision.projector_type", "clip.vision.image_size", "clip.vision.patch_size", ""),
    *("clip.vision.embedding_length", "clip.vision.feed_forward_length", "clip.vision.projector.scale_factor"),
    *("clip.vision.spatial_merge_size", "llama.rope.dimension_count", "split.count"),
)
"""Keys that readers of headers look for."""


def gguf_case(dice: random.Random, number: int) -> Case:
    if dice.random() < 0.4:
        return Case("gguf", number, "made header", [File("header", _header(dice))])
    name, whole = dice.choice(list(corpus.headers().items()))
    data = mutated(whole, dice, corpus.GGUF_WORDS)
    steps = [File("header", data)]
    if name == "llama" and dice.random() < LOADED:
        steps.append(File("loader", data))
    return Case("gguf", number, f"broken {name}", steps)


def _header(dice: random.Random) -> bytes:
    """A header whose keys have values that no model has. Readers look at them because the architecture is right."""
    keys = ["general.architecture", *(key for key in KEYS if dice.random() < 0.7)]
    pairs = (
        _text(keys[0].encode()) + struct.pack("<I", TEXT) + _text(dice.choice((b"llama", b"llama", b"clip", b"\xff")))
    )
    pairs += b"".join(_text(key.encode()) + _value(dice) for key in keys[1:])
    count = len(keys) + dice.choice((0, 0, 0, 0, 1, -1, 1 << 40))
    head = struct.pack("<IQQ", dice.choice((3, 3, 3, 2, 1, 4, 0xFFFFFFFF)), 0, count)
    return b"GGUF" + head + pairs


def _text(data: bytes, size: int | None = None) -> bytes:
    return struct.pack("<Q", len(data) if size is None else size) + data


def _value(dice: random.Random) -> bytes:
    """A type and a value of it. Arrays and texts may lie about their length."""
    kind = dice.choice((*SCALARS, 4, 4, 4, 4, 6, 12, TEXT, ARRAY, 13))
    if kind == TEXT:
        return struct.pack("<I", kind) + _text(b"qwen2vl_merger", dice.choice((None, None, None, *WIDE)))
    if kind == ARRAY:
        inner, count = dice.choice((*SCALARS, TEXT, ARRAY, 99)), dice.choice((0, 1, 1, *WIDE))
        return struct.pack("<IIQ", kind, inner, count) + bytes(8)
    return struct.pack("<I", kind) + _number(SCALARS.get(kind, "<I"), dice)


def _number(form: str, dice: random.Random) -> bytes:
    if form in ("<f", "<d"):
        value: Any = dice.choice(FLOATS)
        return struct.pack(form, min(max(value, -3e38), 3e38) if form == "<f" and abs(value) == 1e300 else value)
    value = dice.choice((*NUMBERS, 32, 64, 2048))
    size = struct.calcsize(form)
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def template_case(dice: random.Random, number: int) -> Case:
    """A template that is broken, or made of the words of templates alone."""
    if dice.random() < 0.75:
        name, data = "broken template", mutated(dice.choice(corpus.TEMPLATES).encode(), dice, corpus.TEMPLATE_WORDS)
    else:
        name, data = "words of templates", b"".join(dice.choices(corpus.TEMPLATE_WORDS, k=dice.randrange(1, 12)))
    return Case("templates", number, name, [File("template", data)])
