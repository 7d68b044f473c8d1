"""Decodes the embeddings of a picture with logits: for an answer's first token, and to look for NaN.

llama.cpp's own helper (mtmd_helper_decode_image_chunk) asks for no logits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.runtime import llama, mtmd


def decode_with_logits(projector: Any, context: Context, chunk: Any, size: int, sequence: int, position: int) -> int:
    """Decode the ``size`` embeddings of the projector's last call; returns the code of llama_decode.

    After code 0, the logits after the picture are the last call's only output: index -1. ``projector`` and ``chunk``
    are the library's pointers.
    """
    library, runtime = mtmd(), llama()
    first = ctypes.addressof(library.mtmd_get_output_embd(projector).contents)
    row = int(runtime.llama_model_n_embd_inp(context.model.handle)) * ctypes.sizeof(ctypes.c_float)
    axes = _axes(projector, chunk, size, position)
    most, non_causal = context.batch, library.mtmd_decode_use_non_causal(projector, chunk)
    if non_causal:
        runtime.llama_set_causal_attn(context.handle, False)
    try:
        for start in range(0, size, most):
            places = [axis[start : start + most] for axis in axes]
            ends = start + most >= size
            if code := _decode(context, first + start * row, places, sequence, output=ends):
                return code
        return 0
    finally:
        if non_causal:
            runtime.llama_set_causal_attn(context.handle, True)


def _axes(projector: Any, chunk: Any, size: int, position: int) -> Sequence[Sequence[int]]:
    """Positions of the embeddings on each axis: one axis, or with M-RoPE four (time, height, width, unused)."""
    library = mtmd()
    if not library.mtmd_decode_use_mrope(projector):
        return [range(position, position + size)]
    found = (library.mtmd_decoder_pos * size)()
    tokens = library.mtmd_input_chunk_get_tokens_image(chunk)
    library.mtmd_helper_image_get_decoder_pos(tokens, position, found)
    return [[getattr(one, axis) for one in found] for axis in "tyxz"]


def _decode(context: Context, embeddings: int, places: Sequence[Sequence[int]], sequence: int, *, output: bool) -> int:
    """Decode one batch. ``embeddings``: address of the first; ``output``: the last one needs logits."""
    runtime, count = llama(), len(places[0])
    number = ctypes.c_int32(sequence)
    batch = runtime.llama_batch(
        n_tokens=count,
        embd=ctypes.cast(embeddings, ctypes.POINTER(ctypes.c_float)),
        pos=(ctypes.c_int32 * (count * len(places)))(*(place for axis in places for place in axis)),
        n_seq_id=(ctypes.c_int32 * count)(*[1] * count),
        seq_id=(ctypes.POINTER(ctypes.c_int32) * count)(*[ctypes.pointer(number)] * count),
        logits=(ctypes.c_int8 * count)(*[False] * (count - 1), output),
    )
    return int(runtime.llama_decode(context.handle, batch))
