"""A Qwen3 of two layers with random weights that answers yes or no, for llama.cpp, and in NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from support.tiny_gguf import finish

from edgeserve.engines.asr.whisper.tokens import byte_letters

WIDTH, HEADS, HEAD_WIDTH, LAYERS, FEED_FORWARD, CONTEXT = 32, 2, 16, 2, 48, 256
EPSILON, BASE = 1e-6, 10_000.0
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
LETTERS = tuple(byte_letters())
TEMPLATE = "<|im_start|>user\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n"
Weights = Mapping[str, Any]


def write_qwen(path: Path, template: str = TEMPLATE, *, labels: Sequence[str] = ("yes", "no"), seed: int = 1) -> Path:
    """Tokens: the control tokens, then one for each byte."""
    letters = [chr(one) for one in LETTERS]
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(BASE)
    writer.add_pooling_type(gguf.PoolingType.RANK)
    if labels:
        writer.add_classifier_output_labels(list(labels))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*CONTROL, *letters])
    kinds = [gguf.TokenType.CONTROL] * len(CONTROL) + [gguf.TokenType.NORMAL] * len(letters)
    writer.add_token_types(kinds)
    writer.add_token_merges(["þ ÿ"])
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    if template:
        writer.add_chat_template([{"name": "rerank", "template": template}])
    for name, values in weights(seed, len(labels) or 1).items():
        writer.add_tensor(name, values)
    finish(writer)
    return path


def tokens_of(text: str) -> list[int]:
    """Tokens of a text in which the control tokens are written out."""
    for at, name in enumerate(CONTROL):
        if name in text:
            before, _, after = text.partition(name)
            return [*tokens_of(before), at, *tokens_of(after)]
    return [len(CONTROL) + tuple(byte_letters().values()).index(chr(one)) for one in text.encode()]


def weights(seed: int = 1, classes: int = 2) -> dict[str, Any]:
    """Tensors by their name in GGUF, float32, each [outputs, inputs]."""
    across = HEADS * HEAD_WIDTH
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(CONTROL) + len(LETTERS), WIDTH),
        "output_norm.weight": (WIDTH,),
        "cls.output.weight": (classes, WIDTH),
    }
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        shapes |= {f"{block}{name}.weight": (WIDTH,) for name in ("attn_norm", "ffn_norm")}
        shapes |= {f"{block}attn_{part}_norm.weight": (HEAD_WIDTH,) for part in "qk"}
        shapes |= {f"{block}attn_{part}.weight": (across, WIDTH) for part in "qkv"}
        shapes |= {f"{block}attn_output.weight": (WIDTH, across), f"{block}ffn_down.weight": (WIDTH, FEED_FORWARD)}
        shapes |= {f"{block}ffn_{part}.weight": (FEED_FORWARD, WIDTH) for part in ("gate", "up")}
    return {name: _values(name, shape, np.random.default_rng([seed, *name.encode()])) for name, shape in shapes.items()}


def logit(known: Weights, tokens: Sequence[int]) -> float:
    """The logit of "yes" against "no", by the last token (Qwen3 technical report; transformers, modeling_qwen3.py)."""
    found = known["token_embd.weight"][list(tokens)].astype(float)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        normed = _normed(found, known[f"{block}attn_norm.weight"])
        query, keys, values = (
            (normed @ known[f"{block}attn_{part}.weight"].T).reshape(-1, HEADS, HEAD_WIDTH).transpose(1, 0, 2)
            for part in "qkv"
        )
        query = _turned(_normed(query, known[f"{block}attn_q_norm.weight"]))
        keys = _turned(_normed(keys, known[f"{block}attn_k_norm.weight"]))
        scores = query @ keys.transpose(0, 2, 1) / math.sqrt(HEAD_WIDTH)
        scores = np.where(np.tri(len(tokens), dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        attended = (shares / shares.sum(-1, keepdims=True) @ values).transpose(1, 0, 2).reshape(len(tokens), -1)
        found = found + attended @ known[f"{block}attn_output.weight"].T
        normed = _normed(found, known[f"{block}ffn_norm.weight"])
        gate, up = (normed @ known[f"{block}ffn_{part}.weight"].T for part in ("gate", "up"))
        found = found + gate / (1 + np.exp(-gate)) * up @ known[f"{block}ffn_down.weight"].T
    yes, no = known["cls.output.weight"] @ _normed(found[-1], known["output_norm.weight"])
    return float(yes - no)


def _normed(values: Any, weight: Any) -> Any:
    return values / np.sqrt((values**2).mean(-1, keepdims=True) + EPSILON) * weight


def _turned(values: Any) -> Any:
    """Rotary positions: number i of a head turns with number i + half."""
    half = HEAD_WIDTH // 2
    angles = np.outer(np.arange(values.shape[1]), BASE ** (-np.arange(half) / half))
    first, second = values[..., :half], values[..., half:]
    cosine, sine = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)


def _values(name: str, shape: tuple[int, ...], random: np.random.Generator) -> Any:
    if "norm" in name:
        return np.ones(shape, np.float32)
    return (random.standard_normal(shape) * 0.3).astype(np.float32)
