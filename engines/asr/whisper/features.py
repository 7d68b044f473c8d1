"""Log-mel features as Whisper was trained on: 25 ms Hann windows each 10 ms, Slaney mel bands, 8 decades deep.

The arithmetic is that of faster-whisper's extractor, and tests compare the features. Spectra are computed in blocks, so
that their memory does not grow with the length of the audio.
"""

from __future__ import annotations

import functools
from typing import Any

from edgeserve.messages import INPUT_SAMPLE_RATE

FFT_SIZE, HOP = 400, 160
FRAMES_PER_SECOND = INPUT_SAMPLE_RATE // HOP
WINDOW_FRAMES = 30 * FRAMES_PER_SECOND
BLOCK = 64
"""Frames computed at once. Their spectra take at most 256 KB, which the heap uses again (edgeserve/system/heap.py)."""


@functools.cache
def mel_filters(bands: int) -> Any:
    """Slaney-style filter bank, float32 [bands, 201]: linear up to 1 kHz, logarithmic above, equal energy a band."""
    import numpy

    mels = numpy.linspace(0.0, 45.245640471924965, bands + 2)
    hertz = numpy.where(mels < 15.0, mels * 200.0 / 3, 1000.0 * numpy.exp((mels - 15.0) * numpy.log(6.4) / 27.0))
    bins = numpy.fft.rfftfreq(FFT_SIZE, 1.0 / INPUT_SAMPLE_RATE)
    ramps = hertz[:, None] - bins[None, :]
    widths = numpy.diff(hertz)
    rising, falling = -ramps[:-2] / widths[:-1, None], ramps[2:] / widths[1:, None]
    bank = numpy.maximum(0, numpy.minimum(rising, falling)) * (2.0 / (hertz[2:] - hertz[:bands]))[:, None]
    return bank.astype(numpy.float32)


def log_mel(samples: Any, bands: int) -> Any:
    """float32 samples at 16 kHz, shape (n,) → features [bands, frames], frames = n // 160 + 1."""
    import numpy

    half = FFT_SIZE // 2
    reflected = len(samples) + HOP > half
    padded = numpy.zeros(len(samples) + HOP + 2 * half, numpy.float32)
    padded[half : half + len(samples)] = samples
    if reflected:
        padded[:half] = padded[2 * half : half : -1]
        padded[-half:] = padded[-half - 2 : -2 * half - 2 : -1]
    frames = (len(padded) - FFT_SIZE) // HOP
    window = numpy.hanning(FFT_SIZE + 1)[:-1].astype(numpy.float32)
    views = numpy.lib.stride_tricks.sliding_window_view(padded, FFT_SIZE)[::HOP]
    features = numpy.empty((bands, frames), numpy.float32)
    for start in range(0, frames, BLOCK):
        spectrum = numpy.fft.rfft(views[start : min(start + BLOCK, frames)] * window).astype(numpy.complex64)
        power = mel_filters(bands) @ (numpy.abs(spectrum) ** 2).T
        features[:, start : start + BLOCK] = numpy.log10(numpy.maximum(power, 1e-10))
    numpy.maximum(features, features.max() - 8.0, out=features)
    features += 4.0
    features /= 4.0
    return features


def window(features: Any, start: int) -> Any:
    """The 30 s from frame ``start``, padded with zeros: [1, bands, 3000]."""
    import numpy

    part = features[:, start : start + WINDOW_FRAMES]
    return numpy.pad(part, ((0, 0), (0, WINDOW_FRAMES - part.shape[1])))[None].astype(numpy.float32)
