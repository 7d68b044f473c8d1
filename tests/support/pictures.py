"""Files of pictures."""

from __future__ import annotations

from types import SimpleNamespace


def smallest_gif() -> bytes:
    """A GIF of one pixel: a screen of two colours, a place, and the codes clear, 0 and end of three bits each."""
    return b"GIF89a\1\0\1\0\x80\0\0" + bytes(6) + b"\x2c\0\0\0\0\1\0\1\0\0" + b"\2\2\x44\1\0" + b"\x3b"


IDLE = SimpleNamespace(ahead=SimpleNamespace(coming=lambda jobs: None))
"""A pool for readers of pictures, where nothing is to be heated."""
