"""The header of a picture's file: dimensions, and the memory that decoding takes."""

from __future__ import annotations

from typing import NamedTuple

FAILURES = (ValueError, SyntaxError, EOFError, RuntimeError, OSError)
"""Errors of Pillow, and of the bindings of libheif and libavif, by the code of these."""


class Damaged(ValueError):
    """A file that the decoder (stb_image) would refuse, or decode for too long. It becomes an UnsupportedMedia."""


class Head(NamedTuple):
    """Dimensions in pixels. Decoding takes at most ``memory`` bytes a pixel, file and result included.

    A picture that can be decoded at a fraction of its size has ``whole``: bytes that each of all pixels takes even
    then. None for others.
    """

    width: int
    height: int
    memory: float
    whole: float | None = None
