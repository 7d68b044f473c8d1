"""The shape of a vision projector (mmproj), read from its GGUF header: what one picture takes while it is encoded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from edgeserve.errors import EngineFailure
from engines.llama.gguf import read_header

MOST_TOKENS = {
    "gemma4v": 1120,
    "gemma4uv": 1120,
    "glm4v": 4096,
    "kimivl": 1024,
    "lfm2": 256,
    "minimax_m3": 576,
    "muse-glimmer": 4096,
    "pixtral": 1024,
    "qwen2.5vl_merger": 4096,
    "qwen2vl_merger": 4096,
    "qwen3vl_merger": 4096,
}
"""Projectors that take pictures of any size, and the most tokens of one by default (llama.cpp, tools/mtmd/clip.cpp)."""
MERGE = {"qwen2.5vl_merger": 2, "qwen2vl_merger": 2, "qwen3vl_merger": 2, "glm4v": 2, "minimax_m3": 2, "gemma4v": 3}
"""Patches a side that become one token, where the header does not say (the same source)."""
FEWEST_TOKENS = 256
"""A picture is not shrunk below this: text in it would be lost."""
LIVE_TENSORS = 8
"""Activations of a layer alive at once, in hidden states: input, residual, q, k, v, attention, and the projection."""


@dataclass(frozen=True, slots=True)
class ProjectorShape:
    """``patches`` of one picture of a fixed size; ``most_tokens`` of one of any size, 0 where it is fixed."""

    patches: int
    patch: int
    merge: int
    width: int
    feed_forward: int
    most_tokens: int

    def tokens(self, wanted: int) -> int:
        """Most tokens of one picture when ``wanted`` (0: the default) are asked for."""
        return (wanted or self.most_tokens) if self.most_tokens else self.patches // self.merge**2

    def image_bytes(self, wanted: int) -> int:
        """Private bytes while a picture is encoded: the activations of its patches, and its pixels as floats.

        Attention is computed in blocks (flash attention), so that its scores do not count.
        """
        patches = self.tokens(wanted) * self.merge**2
        return 4 * patches * (LIVE_TENSORS * self.width + 2 * self.feed_forward + 3 * self.patch**2)

    def savable(self, wanted: int) -> int:
        """Bytes that the smallest picture would take less."""
        smallest = min(self.tokens(wanted), FEWEST_TOKENS)
        return self.image_bytes(wanted) - self.image_bytes(smallest) if self.most_tokens else 0

    def fewer(self, wanted: int, amount: int) -> int:
        """Tokens with which a picture takes at least ``amount`` bytes less, down to the fewest."""
        tokens = self.tokens(wanted)
        each = self.image_bytes(tokens) // tokens
        return min(tokens, max(FEWEST_TOKENS, tokens - math.ceil(amount / each)))


def read_projector_shape(path: Path) -> ProjectorShape:
    """Raises EngineFailure when the file is no vision projector."""
    header = read_header(path)

    def number(key: str, default: int) -> int:
        value = header.get(f"clip.vision.{key}", default)
        return int(value) if isinstance(value, int | float) else default

    kind = str(header.get("clip.vision.projector_type") or header.get("clip.projector_type") or "")
    size, patch, width = number("image_size", 0), number("patch_size", 0), number("embedding_length", 0)
    if not (size and patch and width):
        raise EngineFailure(f"{path}: no vision projector; its header names no size, patch and width of a picture")
    merge = number("spatial_merge_size", number("projector.scale_factor", MERGE.get(kind, 1)))
    feed_forward = number("feed_forward_length", 4 * width)
    return ProjectorShape((size // patch) ** 2, patch, max(1, merge), width, feed_forward, MOST_TOKENS.get(kind, 0))
