"""What an engine will take, from what is known before it runs: pure functions of sizes and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.jobs import INFO

PEAK_PER_FILE_BYTE = 1.3
"""Peak memory for each byte of the model's files when nothing better is known (reference/eviction-versus-limits.md)."""
LIVE_TENSORS = 8
"""Activations of one transformer layer alive at once, in units of the hidden state: q, k, v, and the MLP's four."""
FLOAT = 4


@dataclass(frozen=True, slots=True)
class Encoder:
    """Shape of a vision encoder: square input in pixels, patch side, width, attention heads, pictures a tile set."""

    pixels: int
    patch: int
    width: int
    heads: int
    tiles: int = 1


ENCODERS: Mapping[str, Encoder] = MappingProxyType(
    {
        "llava": Encoder(336, 14, 1024, 16),
        "gemma3": Encoder(896, 14, 1152, 16),
        "idefics3": Encoder(512, 16, 768, 12, tiles=17),
        "qwen2vl": Encoder(1024, 14, 1280, 16),
        "pixtral": Encoder(1024, 16, 1024, 16),
        "mllama": Encoder(560, 14, 1280, 16, tiles=4),
    }
)
"""Published shapes by architecture, as a projector GGUF names it."""


def heuristic(spec: ModelSpec) -> Footprint:
    """File size × 1.3: the files mapped, the rest private; a vision model's overhead on top."""
    size = spec.size_bytes
    extra = 0
    if INFO[spec.job].pictures:
        projector = spec.files.get("mmproj")
        weights = projector.stat().st_size if projector and projector.is_file() else 0
        extra = vision_overhead(str(spec.options.get("architecture", "")), weights)
    return Footprint(mapped=size, private=int(size * (PEAK_PER_FILE_BYTE - 1)), per_request=extra)


def vision_overhead(architecture: str, projector_bytes: int, *, image_tokens: int = 0, kv_token_bytes: int = 0) -> int:
    """Bytes that a picture takes beyond the text model: projector weights (read, not mapped), the encoder's
    activations, and the KV of the picture's tokens. An unknown architecture counts its weights twice.

    Tiles are encoded one after the other, so activations do not grow with their number.
    """
    kv = image_tokens * kv_token_bytes
    encoder = ENCODERS.get(architecture)
    if encoder is None:
        return 2 * projector_bytes + kv
    patches = (encoder.pixels // encoder.patch) ** 2
    hidden = patches * encoder.width * FLOAT * LIVE_TENSORS
    scores = encoder.heads * patches**2 * FLOAT
    picture = encoder.tiles * encoder.pixels**2 * 3 * FLOAT
    return projector_bytes + hidden + scores + picture + kv


def kv_bytes(layers: int, kv_heads: int, head_dim: int, context: int, element_bytes: float = 2.0) -> int:
    """Key/value cache of a context: layers × 2 × heads × dim × tokens × element (reference/unified-memory-budget.md).

    ``element_bytes``: 2 for f16, 1.0625 for q8_0 (34 bytes for 32 values), 0.5625 for q4_0 (18 for 32).
    """
    return int(layers * 2 * kv_heads * head_dim * context * element_bytes)


def context_that_fits(free: int, layers: int, kv_heads: int, head_dim: int, element_bytes: float = 2.0) -> int:
    """The longest context, a multiple of 256 tokens, whose cache takes at most ``free`` bytes; 0 for none."""
    one = kv_bytes(layers, kv_heads, head_dim, 256, element_bytes)
    return max(0, free) // one * 256 if one else 0
