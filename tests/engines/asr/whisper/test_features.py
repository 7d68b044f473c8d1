"""Log-mel features against those of faster-whisper."""

from __future__ import annotations

import numpy
import pytest

from edgeserve.engines.asr.whisper import features


@pytest.mark.parametrize("bands", [80, 128])
@pytest.mark.parametrize("count", [201, 400, 16_000, 16_123, 200_000])
def test_features_are_those_of_the_reference(bands: int, count: int) -> None:
    from faster_whisper.feature_extractor import FeatureExtractor

    samples = (0.1 * numpy.random.default_rng(count).standard_normal(count)).astype(numpy.float32)
    found, wanted = features.log_mel(samples, bands), FeatureExtractor(feature_size=bands)(samples)
    assert found.shape == wanted.shape
    assert abs(found - wanted).max() < 1e-5


@pytest.mark.parametrize("count", [1, 39, 41, 160])
def test_a_few_samples_are_enough(count: int) -> None:
    found = features.log_mel(numpy.full(count, 0.1, numpy.float32), 80)
    assert found.shape == (80, count // features.HOP + 1)
    assert numpy.isfinite(found).all()


def test_a_window_is_filled_up_with_zeros() -> None:
    mel = numpy.ones((80, 3100), numpy.float32)
    assert features.window(mel, 100).shape == (1, 80, 3000)
    last = features.window(mel, 3000)
    assert last[0, :, :100].min() == 1.0
    assert last[0, :, 100:].max() == 0.0


@pytest.mark.slow
def test_an_hour_needs_no_hour_of_spectra() -> None:
    import tracemalloc

    samples = numpy.zeros(600 * 16_000, numpy.float32)
    features.mel_filters(80)
    tracemalloc.start()
    features.log_mel(samples, 80)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < samples.nbytes + 60_000 * 80 * 4 + (24 << 20)
