"""A language model of real size whose weights are random: for figures that depend on size, not on sense.

    python -m benchmarks.synthetic OUT.gguf [--shape llama-3.2-1b] [--quant Q4_0]

The shapes are those of published models. The vocabulary and the chat template are SmolLM2's: no hub is asked. Tokens
that no text has fill the vocabulary up to the published size, so that the output matrix has its real size. It takes
some minutes and three times the size of the f16 weights on the disk.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeserve.models.folder import default_root
from edgeserve.models.store import Store

VOCABULARY = "smollm2-135m-instruct"
CONTEXT = 8192
SPREAD = 0.02
"""Standard deviation of the weights, as models are initialised."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A transformer: widths in numbers. All share the token table with the output.

    - ``architecture``: name in GGUF. ``words``: tokens of the vocabulary; 0: those of SmolLM2.
    - ``norms``: norms of each layer by the width of a row: the model's or a head's.
    - ``window``: tokens of the sliding window; 0 without one.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    head: int = 64
    architecture: str = "llama"
    words: int = 0
    epsilon: float = 1e-5
    rope: float = 10_000.0
    window: int = 0

    @property
    def norms(self) -> dict[str, int]:
        found = {"attn_norm": self.width, "ffn_norm": self.width}
        if self.architecture != "llama":
            found |= {"attn_q_norm": self.head, "attn_k_norm": self.head}
        if self.architecture == "gemma3":
            found |= {"post_attention_norm": self.width, "post_ffw_norm": self.width}
        return found

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of the matrices of each layer."""
        queries, keys = self.heads * self.head, self.kv_heads * self.head
        return {
            "attn_q": (queries, self.width),
            "attn_k": (keys, self.width),
            "attn_v": (keys, self.width),
            "attn_output": (self.width, queries),
            "ffn_gate": (self.feed_forward, self.width),
            "ffn_up": (self.feed_forward, self.width),
            "ffn_down": (self.width, self.feed_forward),
        }


SHAPES = {
    "llama-1b": Shape(layers=16, width=2048, heads=32, kv_heads=8, feed_forward=8192),
    "llama-0.5b": Shape(layers=24, width=1024, heads=16, kv_heads=8, feed_forward=4096),
    "llama-3.2-1b": Shape(16, 2048, 32, 8, 8192, words=128_256, rope=500_000.0),
    "qwen3-0.6b": Shape(28, 1024, 16, 8, 3072, 128, "qwen3", 151_936, 1e-6, 1_000_000.0),
    "qwen3-1.7b": Shape(28, 2048, 16, 8, 6144, 128, "qwen3", 151_936, 1e-6, 1_000_000.0),
    "gemma-3-1b": Shape(26, 1152, 4, 1, 6912, 256, "gemma3", 262_144, 1e-6, 1_000_000.0, window=512),
}
"""The first two have SmolLM2's small vocabulary. The others are as published: config.json of meta-llama/Llama-3.2-1B,
Qwen/Qwen3-0.6B, Qwen/Qwen3-1.7B and google/gemma-3-1b-it."""
QUANTS = ("Q4_0", "Q4_K_M", "Q8_0")
"""Formats that users have."""


def cached(folder: Path, shape: str, quant: str) -> Path:
    """The file of this shape and format in a folder, built when it is missing. Raises ValueError."""
    path = folder / f"{shape}-{quant.lower()}.gguf"
    if not path.is_file():
        if shape not in SHAPES:
            raise ValueError(f"{shape} is no shape; known: {', '.join(SHAPES)}")
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{path.name}.new"
        build(partial, SHAPES[shape], quant).replace(path)
    return path


def build(out: Path, shape: Shape, quant: str) -> Path:
    """Write a GGUF file of this shape and llama.cpp's format ``quant`` ("Q4_0", "Q4_K_M", "Q8_0", …)."""
    import llama_cpp

    formats = {
        name.removeprefix("LLAMA_FTYPE_MOSTLY_"): value
        for name, value in vars(llama_cpp).items()
        if name.startswith("LLAMA_FTYPE_MOSTLY_")
    }
    if quant not in formats:
        raise ValueError(f"{quant} is no format of llama.cpp; known: {', '.join(sorted(formats))}")
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        whole = Path(folder) / "f16.gguf"
        _write(whole, shape)
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype, params.nthread = formats[quant], os.cpu_count() or 1
        if llama_cpp.llama_model_quantize(bytes(whole), bytes(out), params):
            raise RuntimeError(f"llama.cpp could not write {out} as {quant}")
    return out


def _write(path: Path, shape: Shape) -> None:
    import gguf

    writer = gguf.GGUFWriter(str(path), shape.architecture, use_temp_file=True)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(shape.rope)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    if shape.window:
        writer.add_sliding_window(shape.window)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    words = _copy_vocabulary(writer, shape.words)
    writer.add_vocab_size(words)
    for name, array in _tensors(shape, words):
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_vocabulary(writer: Any, wanted: int) -> int:
    """Write the tokenizer, filled up to ``wanted`` tokens. Returns the number of tokens."""
    import gguf

    reader = gguf.GGUFReader(str(Store(default_root(os.environ)).pull(VOCABULARY).files["model"]))
    count = len(reader.fields["tokenizer.ggml.tokens"].data)
    more = max(0, wanted - count)
    filling: dict[str, list[Any]] = {
        "tokenizer.ggml.tokens": [f"zq{number}zq" for number in range(more)],  # no merge makes them of a text
        "tokenizer.ggml.token_type": [int(gguf.TokenType.NORMAL)] * more,
        "tokenizer.ggml.scores": [0.0] * more,
    }
    for name, field in reader.fields.items():
        if name.startswith("tokenizer."):
            kind, *items = field.types
            value = field.contents()
            writer.add_key_value(name, [*value, *filling[name]] if name in filling else value, kind, *items[-1:])
    return count + more


def _tensors(shape: Shape, words: int) -> Iterator[tuple[str, Any]]:
    import numpy

    dice = numpy.random.default_rng(1)

    def weights(rows: int, columns: int) -> Any:
        return (dice.standard_normal((rows, columns), numpy.float32) * SPREAD).astype(numpy.float16)

    yield "token_embd.weight", weights(words, shape.width)
    yield "output_norm.weight", numpy.ones(shape.width, numpy.float32)
    for layer in range(shape.layers):
        for name, (rows, columns) in shape.matrices.items():
            yield f"blk.{layer}.{name}.weight", weights(rows, columns)
        for name, width in shape.norms.items():
            yield f"blk.{layer}.{name}.weight", numpy.ones(width, numpy.float32)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.2-1b")
    parser.add_argument("--quant", default="Q4_0")
    arguments = parser.parse_args()
    path = build(arguments.out, SHAPES[arguments.shape], arguments.quant)
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
