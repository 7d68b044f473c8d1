"""A language model of real size whose weights are random: for figures that depend on size, not on sense.

    python -m benchmarks.synthetic OUT.gguf [--shape llama-1b] [--quant Q4_0]

The vocabulary and the chat template are SmolLM2's. No hub is asked. It takes about a minute and three times the file's
size in memory.
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
    """A Llama: widths in numbers, heads of 64."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.width // self.heads


SHAPES = {
    "llama-1b": Shape(layers=16, width=2048, heads=32, kv_heads=8, feed_forward=8192),
    "llama-0.5b": Shape(layers=24, width=1024, heads=16, kv_heads=8, feed_forward=4096),
}


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

    writer = gguf.GGUFWriter(str(path), "llama", use_temp_file=True)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    words = _copy_vocabulary(writer)
    writer.add_vocab_size(words)
    for name, array in _tensors(shape, words):
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_vocabulary(writer: Any) -> int:
    """Returns the number of tokens."""
    import gguf

    reader = gguf.GGUFReader(str(Store(default_root(os.environ)).pull(VOCABULARY).files["model"]))
    for name, field in reader.fields.items():
        if name.startswith("tokenizer."):
            kind, *items = field.types
            writer.add_key_value(name, field.contents(), kind, items[-1] if items else None)
    return len(reader.fields["tokenizer.ggml.tokens"].data)


def _tensors(shape: Shape, words: int) -> Iterator[tuple[str, Any]]:
    import numpy

    dice = numpy.random.default_rng(1)

    def weights(rows: int, columns: int) -> Any:
        return (dice.standard_normal((rows, columns), numpy.float32) * SPREAD).astype(numpy.float16)

    ones = numpy.ones(shape.width, numpy.float32)
    yield "token_embd.weight", weights(words, shape.width)
    yield "output_norm.weight", ones
    for layer in range(shape.layers):
        rows = {"attn_q": shape.width, "attn_k": shape.kv_width, "attn_v": shape.kv_width, "attn_output": shape.width}
        rows |= {"ffn_gate": shape.feed_forward, "ffn_up": shape.feed_forward}
        for name, count in rows.items():
            yield f"blk.{layer}.{name}.weight", weights(count, shape.width)
        yield f"blk.{layer}.ffn_down.weight", weights(shape.width, shape.feed_forward)
        yield f"blk.{layer}.attn_norm.weight", ones
        yield f"blk.{layer}.ffn_norm.weight", ones


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="llama-1b")
    parser.add_argument("--quant", default="Q4_0")
    arguments = parser.parse_args()
    path = build(arguments.out, SHAPES[arguments.shape], arguments.quant)
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
