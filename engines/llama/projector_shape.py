"""The shape of a vision projector (mmproj), read from its GGUF header: it gives the memory of encoding one picture."""

from __future__ import annotations

import math
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.gguf import read_header, whole
from edgeserve.errors import EngineFailure

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
"""Most tokens of one picture by projector type, for those that take any size (llama.cpp, tools/mtmd/clip.cpp)."""
MERGE = {"qwen2.5vl_merger": 2, "qwen2vl_merger": 2, "qwen3vl_merger": 2, "glm4v": 2, "minimax_m3": 2, "gemma4v": 3}
"""Patches a side that become one token, for headers that do not name the number (the same source)."""
FEWEST_TOKENS = 256
"""Tokens. The governor shrinks no picture below this: text in it would become illegible."""
LIVE_TENSORS = 8
"""Activations of a layer alive at once, each as wide as the hidden state: input, residual, q, k, v, attention…"""


@dataclass(frozen=True, slots=True)
class ProjectorShape:
    """``patches``: those of a picture of fixed size. ``most_tokens``: most tokens of one of any size; 0 if fixed."""

    patches: int
    patch: int
    merge: int
    width: int
    feed_forward: int
    most_tokens: int

    def tokens(self, wanted: int) -> int:
        """Most tokens of one picture; ``wanted`` is the limit of the options (0: the projector's default)."""
        return (wanted or self.most_tokens) if self.most_tokens else self.patches // self.merge**2

    def image_bytes(self, wanted: int) -> int:
        """Private bytes while a picture is encoded: the activations of its patches, and its pixels as floats.

        Flash attention keeps no scores, so they do not count.
        """
        patches = self.tokens(wanted) * self.merge**2
        return 4 * patches * (LIVE_TENSORS * self.width + 2 * self.feed_forward + 3 * self.patch**2)

    def savable(self, wanted: int) -> int:
        """Bytes that shrinking pictures to the fewest tokens saves."""
        smallest = min(self.tokens(wanted), FEWEST_TOKENS)
        return self.image_bytes(wanted) - self.image_bytes(smallest) if self.most_tokens else 0

    def fewer(self, wanted: int, amount: int) -> int:
        """Tokens of a picture that takes at least ``amount`` bytes less; at least FEWEST_TOKENS."""
        tokens = self.tokens(wanted)
        each = self.image_bytes(tokens) // tokens
        return min(tokens, max(FEWEST_TOKENS, tokens - math.ceil(amount / each)))


def read_projector_shape(path: Path) -> ProjectorShape:
    """The shape from the header of a projector file. Raises EngineFailure when the file is no vision projector."""
    header = read_header(path)

    def number(key: str, default: int) -> int:
        return whole(header, f"clip.vision.{key}", default)

    kind = str(header.get("clip.vision.projector_type") or header.get("clip.projector_type") or "")
    size, patch, width = number("image_size", 0), number("patch_size", 0), number("embedding_length", 0)
    if not (size and patch and width):
        raise EngineFailure(f"{path}: no vision projector; its header names no size, patch and width of a picture")
    merge = number("spatial_merge_size", number("projector.scale_factor", MERGE.get(kind, 1)))
    feed_forward = number("feed_forward_length", 4 * width)
    return ProjectorShape((size // patch) ** 2, patch, max(1, merge), width, feed_forward, MOST_TOKENS.get(kind, 0))
