"""Language models of random weights and a few hundred kilobytes, one for each kind of memory that llama.cpp has:
a key-value cache, one with a sliding window, and a recurrent state.

Prompts are token numbers; the vocabulary is there because a file needs one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

VOCABULARY, WIDTH, LAYERS, FEED_FORWARD = 320, 64, 6, 128
HEADS, HEAD_WIDTH, WINDOW = 2, 32, 24
INNER, STATE, KERNEL, RANK = 128, 16, 4, 8
Tensors = dict[str, Any]


def write_model(
    path: Path,
    architecture: str,
    seed: int = 1,
    splitter: str = "default",
    added: Tensors | None = None,
    words: Mapping[int, str] | None = None,
) -> Path:
    """``architecture``: "llama", "gemma3" (five layers of six see a window of 24 tokens) or "mamba" (recurrent).
    ``splitter``: how the vocabulary cuts a text into words. ``added``: numbers to add to weights, by name.
    ``words``: texts of tokens by their number; one that begins with "<" is a control token."""
    import gguf

    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_layer_norm_rms_eps(1e-5)
    dice = numpy.random.default_rng(seed)
    if architecture == "mamba":
        tensors = _recurrent(writer, dice)
    else:
        tensors = _attention(writer, dice, window=architecture == "gemma3")
    # Small beside what the layers add, so that the next token hangs on all that went before and not on the last alone.
    tensors |= {"token_embd.weight": dice.normal(0, 0.1, (VOCABULARY, WIDTH)), "output_norm.weight": numpy.ones(WIDTH)}
    tensors |= {"output.weight": dice.normal(0, 0.4, (VOCABULARY, WIDTH))}
    tensors |= {name: tensors[name] + array for name, array in (added or {}).items()}
    _add_vocabulary(writer, splitter, words or {})
    for name, array in tensors.items():
        writer.add_tensor(name, numpy.ascontiguousarray(array, numpy.float32))
    finish(writer)
    return path


def finish(writer: Any) -> None:
    """Write the file of a ``gguf.GGUFWriter``."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: Any, splitter: str, words: Mapping[int, str]) -> None:
    from gguf.constants import TokenType

    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitter)
    texts = ["<end>", *(words.get(number, f"word{number},") for number in range(1, VOCABULARY))]
    writer.add_token_list(texts)
    writer.add_token_types([TokenType.CONTROL if one.startswith("<") else TokenType.NORMAL for one in texts])
    writer.add_token_merges(["w o"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)


def _weights(dice: Any, *shape: int) -> Any:
    return dice.normal(0, 1.5 / shape[-1] ** 0.5, shape)


def _attention(writer: Any, dice: Any, *, window: bool) -> Tensors:
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_rope_freq_base(10_000.0)
    if window:
        writer.add_sliding_window(WINDOW)
    tensors: Tensors = {}
    for layer in range(LAYERS):
        one: Tensors = {
            "attn_norm": numpy.ones(WIDTH),
            "ffn_norm": numpy.ones(WIDTH),
            "attn_output": _weights(dice, WIDTH, HEADS * HEAD_WIDTH),
            "ffn_gate": _weights(dice, FEED_FORWARD, WIDTH),
            "ffn_up": _weights(dice, FEED_FORWARD, WIDTH),
            "ffn_down": _weights(dice, WIDTH, FEED_FORWARD),
        }
        one |= {f"attn_{part}": _weights(dice, HEADS * HEAD_WIDTH, WIDTH) for part in "qkv"}
        if window:
            one |= {f"attn_{part}_norm": numpy.ones(HEAD_WIDTH) for part in "qk"}
            one |= {f"post_{part}_norm": numpy.ones(WIDTH) for part in ("attention", "ffw")}
        tensors |= {f"blk.{layer}.{name}.weight": array for name, array in one.items()}
    return tensors


def _recurrent(writer: Any, dice: Any) -> Tensors:
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(KERNEL)
    writer.add_ssm_inner_size(INNER)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_time_step_rank(RANK)
    tensors: Tensors = {}
    for layer in range(LAYERS):
        tensors |= {
            f"blk.{layer}.{name}": array
            for name, array in {
                "attn_norm.weight": numpy.ones(WIDTH),
                "ssm_in.weight": _weights(dice, 2 * INNER, WIDTH),
                "ssm_conv1d.weight": _weights(dice, INNER, KERNEL),
                "ssm_conv1d.bias": numpy.zeros(INNER),
                "ssm_x.weight": _weights(dice, RANK + 2 * STATE, INNER),
                "ssm_dt.weight": _weights(dice, INNER, RANK),
                "ssm_dt.bias": numpy.full(INNER, -3.0),
                "ssm_a": -numpy.tile(numpy.arange(1.0, STATE + 1), (INNER, 1)),
                "ssm_d": numpy.ones(INNER),
                "ssm_out.weight": _weights(dice, WIDTH, INNER),
            }.items()
        }
    return tensors
