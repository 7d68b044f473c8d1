"""A small projector for SmolLM2-135M: a picture of one colour becomes the embeddings of a sentence that names it.

LLaVA's shape (``mlp``): 2×2 patches → mean colour and place of each → one block that changes nothing → two layers. The
first layer has one unit for each colour and place, on for that pair alone. The columns of the second layer are the
embeddings of the sentence's words, from the language model itself. Deterministic; half a megabyte.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy

COLOURS = {"red": (1, -1, -1), "green": (-1, 1, -1), "blue": (-1, -1, 1)}
SENTENCE = ("The", " color", " is", " {}")
PATCH, PLACES, WIDTH, HIDDEN = 32, 4, 32, 32


def build_mmproj(llm: Path, out: Path) -> Path:
    """Write the projector for the GGUF model ``llm`` to ``out``."""
    import gguf

    words = _embeddings(gguf.GGUFReader(str(llm)), [word.format(name) for name in COLOURS for word in SENTENCE])
    writer = gguf.GGUFWriter(str(out), "clip")
    writer.add_string("general.type", "mmproj")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", True)
    numbers = {"image_size": 2 * PATCH, "patch_size": PATCH, "embedding_length": WIDTH, "feed_forward_length": WIDTH}
    numbers |= {"block_count": 1, "projection_dim": words.shape[1], "attention.head_count": 1}
    for name, value in numbers.items():
        writer.add_uint32(f"clip.vision.{name}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    for name, array in _tensors(words).items():
        writer.add_tensor(name, numpy.ascontiguousarray(array, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def _tensors(words: Any) -> dict[str, Any]:
    zeros = numpy.zeros
    patch = zeros((WIDTH, 3, PATCH, PATCH))
    for channel in range(3):
        patch[channel, channel] = 1.0 / PATCH**2  # mean of the channel, -1 to 1
    first = zeros((HIDDEN, WIDTH))
    bias = numpy.full(HIDDEN, -100.0)
    for unit, (signs, place) in enumerate(itertools.product(COLOURS.values(), range(PLACES))):
        # Its colour and place: 3 × 10 + 20 - 40 = 10, where GELU is the identity; others: at most -10, where it is 0.
        first[unit, :3] = [10.0 * sign for sign in signs]
        first[unit, 3 + place] = 20.0
        bias[unit] = -40.0
    second = zeros((words.shape[1], HIDDEN))
    second[:, : len(words)] = words.T / 10.0
    tensors: dict[str, Any] = {
        "v.patch_embd.weight": patch,
        "v.position_embd.weight": numpy.eye(PLACES, WIDTH, k=3),
        "mm.0.weight": first,
        "mm.0.bias": bias,
        "mm.2.weight": second,
        "mm.2.bias": zeros(words.shape[1]),
    }
    for part in ("attn_q", "attn_k", "attn_v", "attn_out", "ffn_up", "ffn_down"):
        tensors |= {f"v.blk.0.{part}.weight": zeros((WIDTH, WIDTH)), f"v.blk.0.{part}.bias": zeros(WIDTH)}
    for part in ("ln1", "ln2"):
        tensors |= {f"v.blk.0.{part}.weight": numpy.ones(WIDTH), f"v.blk.0.{part}.bias": zeros(WIDTH)}
    return tensors


def _embeddings(reader: Any, words: list[str]) -> Any:
    """Rows of the token embedding, dequantised: [words, width]."""
    from gguf.quants import dequantize

    field = reader.fields["tokenizer.ggml.tokens"]
    tokens = {bytes(field.parts[index]).decode(): number for number, index in enumerate(field.data)}
    (table,) = (tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")
    rows = [tokens[word.replace(" ", "Ġ")] for word in words]
    return dequantize(table.data[rows], table.tensor_type)


def picture(colour: str, size: int = 64) -> bytes:
    """A PNG of one colour."""
    from io import BytesIO

    from PIL import Image

    out = BytesIO()
    Image.new("RGB", (size, size), colour).save(out, "PNG")
    return out.getvalue()
