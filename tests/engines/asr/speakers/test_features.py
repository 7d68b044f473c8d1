"""Mel power against its definition."""

from __future__ import annotations

import numpy
import pytest

from edgeserve.engines.asr.speakers.features import BANDS, QUIET, mel_power
from edgeserve.engines.asr.whisper.features import mel_filters


def test_the_power_of_each_band_by_its_definition() -> None:
    samples = numpy.random.default_rng(0).normal(scale=0.1, size=4000).astype(numpy.float32)
    padded = numpy.concatenate([numpy.zeros(200), samples, numpy.zeros(200)])
    window = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(400) / 400)
    found = mel_power(samples)
    assert found.shape == (26, BANDS)
    for frame in (0, 7, 25):
        power = numpy.abs(numpy.fft.rfft(padded[frame * 160 : frame * 160 + 400] * window)) ** 2
        assert found[frame] == pytest.approx(mel_filters(BANDS) @ power, rel=1e-4)


def test_quiet_speech_is_as_loud_as_the_encoder_expects() -> None:
    samples = numpy.random.default_rng(0).normal(scale=0.2, size=16_000).astype(numpy.float32)
    loudness = float(numpy.square(samples).mean())
    assert loudness > QUIET
    expected = mel_power(samples) * QUIET / loudness
    assert mel_power(samples / 100) == pytest.approx(expected, rel=1e-3)
    assert not mel_power(numpy.zeros(1600, numpy.float32)).any()
