"""A BERT of two layers with random weights and a small WordPiece vocabulary: for llama.cpp, and in NumPy.

``support.tiny_bert_onnx`` writes the same model as a graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from support.tiny_gguf import finish

WORDS = ("the", "cat", "dog", "sleeps", "runs", "on", "sofa", "fast", "rain", "train")
PIECES = "abcdefghijklmnopqrstuvwxyz.,"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WIDTH, HEADS, LAYERS, FEED_FORWARD, CONTEXT = 32, 2, 2, 64, 96
EPSILON = 1e-12
VOCABULARY = len(SPECIAL) + len(WORDS) + 2 * len(PIECES)
HEAD = {"cls.weight": (WIDTH, WIDTH), "cls.bias": (WIDTH,), "cls.output.weight": (1, WIDTH), "cls.output.bias": (1,)}
"""Shapes of a ranking head."""
Weights = Mapping[str, Any]


def write_bert(
    path: Path,
    pooling: gguf.PoolingType | None,
    *,
    seed: int = 1,
    head: Sequence[str] = (),
    labels: Sequence[str] = (),
    more: Weights | None = None,
) -> Path:
    """``pooling`` None: the file says nothing of it. ``head``: tensors of a ranking head. ``more``: other tensors."""
    # llama.cpp marks the beginning of words, where the vocabulary of BERT marks what is none.
    tokens = [*SPECIAL, *(f"▁{word}" for word in WORDS), *(f"▁{one}" for one in PIECES), *PIECES]
    kinds = [gguf.TokenType.CONTROL] * len(SPECIAL) + [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIAL))
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(EPSILON)
    writer.add_causal_attention(False)
    if pooling is not None:
        writer.add_pooling_type(pooling)
    if labels:
        writer.add_classifier_output_labels(list(labels))
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_type_count(2)
    writer.add_pad_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_sep_token_id(3)
    writer.add_eos_token_id(3)
    for name, values in {**weights(seed, head), **(more or {})}.items():
        writer.add_tensor(name, values)
    finish(writer)
    return path


def weights(seed: int = 1, head: Sequence[str] = ()) -> dict[str, Any]:
    """Tensors by their name in GGUF, float32, each [outputs, inputs]."""
    shapes = _shapes() | {name: HEAD[name] for name in head}
    return {name: _values(name, shape, np.random.default_rng([seed, *name.encode()])) for name, shape in shapes.items()}


def rows(known: Weights, tokens: Sequence[int], types: Sequence[int] | None = None) -> Any:
    """The rows of the last layer, float64 [tokens, WIDTH], by Devlin et al. 2018. llama.cpp takes every type for 0."""
    types = [0] * len(tokens) if types is None else types
    found = known["token_embd.weight"][list(tokens)].astype(float) + known["token_types.weight"][list(types)]
    found = _normed(found + known["position_embd.weight"][: len(tokens)], known, "token_embd_norm")
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        query, keys, values = (_heads(_linear(found, known, f"{block}attn_{part}")) for part in "qkv")
        scores = query @ keys.transpose(0, 2, 1) / math.sqrt(WIDTH // HEADS)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        attended = (shares / shares.sum(-1, keepdims=True) @ values).transpose(1, 0, 2).reshape(len(tokens), WIDTH)
        found = _normed(found + _linear(attended, known, f"{block}attn_output"), known, f"{block}attn_output_norm")
        wide = _linear(found, known, f"{block}ffn_up")
        wide = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
        found = _normed(found + _linear(wide, known, f"{block}ffn_down"), known, f"{block}layer_output_norm")
    return found


def logit(known: Weights, tokens: Sequence[int], types: Sequence[int] | None = None) -> float:
    """The relevance by the ranking head, a part of which may be missing (transformers, modeling_roberta.py)."""
    found = rows(known, tokens, types)[0]
    if "cls.weight" in known:
        found = np.tanh(_linear(found, known, "cls"))
    return float(_linear(found, known, "cls.output")[0])


def _linear(values: Any, known: Weights, name: str) -> Any:
    return values @ known[f"{name}.weight"].T + known.get(f"{name}.bias", 0.0)


def _normed(values: Any, known: Weights, name: str) -> Any:
    deviation = np.sqrt(values.var(-1, keepdims=True) + EPSILON)
    return (values - values.mean(-1, keepdims=True)) / deviation * known[f"{name}.weight"] + known[f"{name}.bias"]


def _heads(values: Any) -> Any:
    return values.reshape(len(values), HEADS, WIDTH // HEADS).transpose(1, 0, 2)


def _shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCABULARY, WIDTH),
        "position_embd.weight": (CONTEXT, WIDTH),
        "token_types.weight": (2, WIDTH),
    }
    norms = ["token_embd_norm"]
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        norms += [f"{block}attn_output_norm", f"{block}layer_output_norm"]
        square = [f"{block}{name}" for name in ("attn_q", "attn_k", "attn_v", "attn_output")]
        shapes |= {f"{name}.weight": (WIDTH, WIDTH) for name in square} | {f"{name}.bias": (WIDTH,) for name in square}
        shapes |= {f"{block}ffn_up.weight": (FEED_FORWARD, WIDTH), f"{block}ffn_up.bias": (FEED_FORWARD,)}
        shapes |= {f"{block}ffn_down.weight": (WIDTH, FEED_FORWARD), f"{block}ffn_down.bias": (WIDTH,)}
    return shapes | {f"{name}.{part}": (WIDTH,) for name in norms for part in ("weight", "bias")}


def _values(name: str, shape: tuple[int, ...], random: np.random.Generator) -> Any:
    if "norm" in name:
        return np.full(shape, 1.0 if name.endswith("weight") else 0.0, np.float32)
    return (random.standard_normal(shape) * 0.3).astype(np.float32)
