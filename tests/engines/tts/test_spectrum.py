"""Frames to samples in blocks: the library's own signal processing at once is the reference."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from edgeserve.engines.tts.lean_import import without
from edgeserve.engines.tts.pulses import HOP
from edgeserve.engines.tts.spectrum import BINS, BLOCK, Frames, Noise, samples

with without("scipy.fft"):
    dsp = pytest.importorskip("hibari.dsp", reason="the voice library is not installed")

NOISE = Noise(0)
SILENT = -30.0
"""Logarithm of a noise so small that rounding removes it."""


def drawn(count: int, seed: int, *, noise: float = SILENT) -> Frames:
    """Spectra and a pitch as they might be: voiced stretches, and others without a voice."""
    some = numpy.random.default_rng(seed)
    lh, th, lr, phi = (some.normal(size=(count, BINS)).astype(numpy.float32) for _ in range(4))
    pitch = some.uniform(70, 400, count) * (numpy.sin(numpy.arange(count) / 9 + seed) > -0.5)
    ln = numpy.full((count, BINS), noise, numpy.float32)
    return Frames(lh, th, ln, lr - 3, 3 * phi, pitch.astype(numpy.float32))


def whole(frames: Frames, block: int = BLOCK) -> Any:
    return numpy.concatenate([one.copy() for one in samples(frames, NOISE, block)])


def reference(frames: Frames) -> Any:
    *spectral, pitch = frames
    return dsp.synth(*(one.T for one in spectral), pitch, numpy.random.default_rng(0))


def furthest(got: Any, wanted: Any) -> float:
    """The greatest difference of a sample, as a share of the loudest."""
    assert got.shape == wanted.shape
    return float(abs(got - wanted).max() / abs(wanted).max())


@pytest.mark.slow
@given(st.integers(1, 150), st.integers(4, 60), st.integers(0, 99))
@examples(60)
def test_in_blocks_as_at_once(count: int, block: int, seed: int) -> None:
    frames = drawn(count, seed)
    assert furthest(whole(frames, block), reference(frames)) < 1e-3


@pytest.mark.parametrize("pitch", [0.0, 39.9, 40.0, 40.1, 120.0, 11_000.0])
def test_a_steady_pitch(pitch: float) -> None:
    frames = drawn(100, 1)._replace(f0=numpy.full(100, pitch, numpy.float32))
    assert furthest(whole(frames), reference(frames)) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_200, pytest.param(4_800, marks=pytest.mark.slow)])
def test_the_phase_does_not_drift(count: int) -> None:
    """A quarter of a minute, and a minute: as many cycles as a whole text never has at once."""
    frames = drawn(count, 2)._replace(f0=numpy.full(count, 300.0, numpy.float32))
    assert furthest(whole(frames)[-HOP * 40 :], reference(frames)[-HOP * 40 :]) < 1e-3


def test_what_is_too_loud_is_bounded_without_a_warning() -> None:
    frames = drawn(50, 3)
    frames = frames._replace(lh=frames.lh + 200)
    got = whole(frames)
    assert numpy.isfinite(got).all()
    assert furthest(got, reference(frames)) < 1e-3


@pytest.mark.slow
def test_noise_has_the_power_and_the_peaks_of_a_normal_distribution() -> None:
    frames = drawn(2_000, 4, noise=0.0)
    frames = frames._replace(lh=frames.lh - 30, lr=frames.lr - 30)
    got, wanted = whole(frames), reference(frames)
    assert got.std() == pytest.approx(wanted.std(), rel=0.01)
    assert abs(got.mean()) < 0.01 * got.std()
    assert (abs(got) > 2 * got.std()).mean() == pytest.approx(0.0455, rel=0.05)
    assert abs(numpy.corrcoef(got[:-1], got[1:])[0, 1] - numpy.corrcoef(wanted[:-1], wanted[1:])[0, 1]) < 0.02


def test_the_same_seed_gives_the_same_noise() -> None:
    frames = drawn(60, 5, noise=0.0)
    assert (whole(frames) == whole(frames)).all()
    assert not (whole(frames) == numpy.concatenate([one.copy() for one in samples(frames, Noise(1))])).all()


def test_the_first_block_needs_no_later_frame_but_one() -> None:
    """Sound begins after one block, so what comes later must not be looked at."""
    frames = drawn(200, 6)
    cut = Frames(*(one[: BLOCK + 1] for one in frames))
    first = next(samples(frames, NOISE)).copy()
    assert len(first) == (BLOCK - 2) * HOP
    assert (first == next(samples(cut, NOISE))).all()
