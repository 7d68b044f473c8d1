"""Power of 40 mel bands each 10 ms, as Resemblyzer's encoder was trained on (``audio.py`` there): no logarithm."""

from __future__ import annotations

from typing import Any

from edgeserve.engines.asr.whisper.features import BLOCK, FFT_SIZE, HOP, mel_filters

BANDS = 40
QUIET = 10.0**-3
"""Mean square of speech at -30 dBFS. Quieter speech is made so loud."""


def mel_power(samples: Any) -> Any:
    """float32 samples at 16 kHz, shape (n,) → float32 [n // 160 + 1, 40]. The samples' edges are padded with zeros."""
    import numpy

    square = float(numpy.mean(numpy.square(samples))) if len(samples) else 0.0
    louder = max(1.0, QUIET / square) if square else 1.0
    padded = numpy.pad(samples, FFT_SIZE // 2)
    window = numpy.hanning(FFT_SIZE + 1)[:-1].astype(numpy.float32)
    views = numpy.lib.stride_tricks.sliding_window_view(padded, FFT_SIZE)[::HOP]
    power = numpy.empty((len(views), BANDS), numpy.float32)
    for start in range(0, len(views), BLOCK):
        spectrum = numpy.fft.rfft(views[start : start + BLOCK] * window)
        power[start : start + BLOCK] = (numpy.abs(spectrum) ** 2).astype(numpy.float32) @ mel_filters(BANDS).T
    power *= louder
    return power
