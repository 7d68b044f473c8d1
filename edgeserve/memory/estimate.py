"""The memory of an engine that has not run yet, estimated from file sizes and published shapes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from edgeserve.dataclass import dataclass
from edgeserve.engine import Footprint, ModelSpec
from edgeserve.jobs import INFO

PEAK_PER_FILE_BYTE = 1.3
"""Peak memory for each byte of the model's files when no better figure is known."""
LIVE_TENSORS = 8
"""Activations of one transformer layer alive at once, in units of the hidden state: q, k, v, and the MLP's four."""
FLOAT = 4


@dataclass(frozen=True, slots=True)
class Encoder:
    """Shape of a vision encoder: square input in pixels, patch side, width, attention heads, tiles of one picture."""

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
    """File size × 1.3: the files count as mapped, the rest as private. A vision model's overhead comes on top."""
    size = spec.size_bytes
    extra = 0
    if INFO[spec.job].pictures:
        projector = spec.files.get("mmproj")
        weights = projector.stat().st_size if projector and projector.is_file() else 0
        extra = vision_overhead(str(spec.options.get("architecture", "")), weights)
    return Footprint(mapped=size, private=int(size * (PEAK_PER_FILE_BYTE - 1)), per_request=extra)


def vision_overhead(architecture: str, projector_bytes: int) -> int:
    """Bytes that a picture takes beyond the text model: the projector's weights and the encoder's activations.

    The weights of the projector are read, not mapped. An unknown architecture counts them twice. Tiles are encoded one
    after the other, so activations do not grow with their number.
    """
    encoder = ENCODERS.get(architecture)
    if encoder is None:
        return 2 * projector_bytes
    patches = (encoder.pixels // encoder.patch) ** 2
    hidden = patches * encoder.width * FLOAT * LIVE_TENSORS
    scores = encoder.heads * patches**2 * FLOAT
    picture = encoder.tiles * encoder.pixels**2 * 3 * FLOAT
    return projector_bytes + hidden + scores + picture
