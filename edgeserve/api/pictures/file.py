"""Files of pictures as their headers tell: dimensions, and the memory that decoding takes."""

from __future__ import annotations

from typing import NamedTuple


class Damaged(ValueError):
    """Why the decoder (stb_image) would refuse a file, or work on it for too long. Becomes an UnsupportedMedia."""


class Head(NamedTuple):
    """``memory``: bytes a pixel that the decoder holds at most, its file and its result included."""

    width: int
    height: int
    memory: float
