"""WAV files."""

from __future__ import annotations

import struct
from collections.abc import Iterable

PCM = 1


def wav_header(rate: int, size: int | None) -> bytes:
    """Header of int16 mono WAV. ``size`` in bytes, None for a stream of unknown length."""
    data = 0xFFFFFFFF if size is None else size
    riff = 0xFFFFFFFF if size is None else 36 + size
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", riff, b"WAVE", b"fmt ", 16, PCM, 1, rate, 2 * rate, 2, 16, b"data", data
    )


def wav(pieces: Iterable[bytes], rate: int) -> bytes:
    """One WAV file of int16 mono pieces."""
    data = b"".join(pieces)
    return wav_header(rate, len(data)) + data
