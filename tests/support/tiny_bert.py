"""A BERT of two layers with random weights and a small WordPiece vocabulary, for llama.cpp."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

WORDS = ("the", "cat", "dog", "sleeps", "runs", "on", "sofa", "fast", "rain", "train")
PIECES = "abcdefghijklmnopqrstuvwxyz.,"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WIDTH, HEADS, LAYERS, FEED_FORWARD, CONTEXT = 32, 2, 2, 64, 96


def write_bert(path: Path, pooling: gguf.PoolingType | None, *, seed: int = 1) -> Path:
    """``pooling`` None: the file says nothing of it."""
    # llama.cpp marks the beginning of words, where the vocabulary of BERT marks what is none.
    tokens = [*SPECIAL, *(f"▁{word}" for word in WORDS), *(f"▁{one}" for one in PIECES), *PIECES]
    kinds = [gguf.TokenType.CONTROL] * len(SPECIAL) + [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIAL))
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    if pooling is not None:
        writer.add_pooling_type(pooling)
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_type_count(2)
    writer.add_pad_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_sep_token_id(3)
    writer.add_eos_token_id(3)
    for name, shape in _shapes(len(tokens)).items():
        writer.add_tensor(name, _values(name, shape, np.random.default_rng([seed, *name.encode()])))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocabulary, WIDTH),
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


def _values(name: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if "norm" in name:
        return np.full(shape, 1.0 if name.endswith("weight") else 0.0, np.float32)
    return (random.standard_normal(shape) * 0.3).astype(np.float32)
