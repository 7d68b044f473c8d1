"""Frames of every depth, rate and number of channels into 16 kHz mono."""

from __future__ import annotations

from typing import Any

import av
import numpy
import pytest
from support.cases import each
from support.sounds import melody

from edgeserve.audio.mono import mono
from edgeserve.messages import INPUT_SAMPLE_RATE, PIECE_SECONDS


def frames(samples: Any, rate: int, layout: str = "mono", size: int = 1000) -> Any:
    """float32 samples (channels, n) in frames of ``size``."""
    for start in range(0, samples.shape[1], size):
        part = numpy.ascontiguousarray(samples[:, start : start + size].T)
        frame = av.AudioFrame.from_ndarray(part.reshape(1, -1), "flt", layout)
        frame.sample_rate = rate
        yield frame


def heard(given: Any) -> Any:
    return numpy.frombuffer(b"".join(mono(given)), "<f4")


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000])
def test_a_melody_keeps_pitch_strength_and_length_across_pieces(rate: int) -> None:
    out = heard(frames(melody(2.5 * PIECE_SECONDS, rate)[None], rate))
    wanted = melody(2.5 * PIECE_SECONDS)
    assert abs(len(out) - len(wanted)) <= 1
    shared = min(len(out), len(wanted))
    assert numpy.abs(out[:shared] - wanted[:shared])[200:-200].max() < 1e-3


def test_pieces_are_of_their_length_but_for_the_last() -> None:
    pieces = list(mono(frames(melody(25, 44_100)[None], 44_100)))
    assert [len(piece) // 4 / INPUT_SAMPLE_RATE for piece in pieces] == [10.0, 10.0, 5.0]


def test_what_16_khz_cannot_hold_is_filtered_out() -> None:
    tone = numpy.sin(2 * numpy.pi * 12_000 * numpy.arange(48_000) / 48_000).astype(numpy.float32)
    assert numpy.abs(heard(frames(tone[None], 48_000)))[200:-200].max() < 0.01


@each("layout", ["stereo", "2.1", "quad", "5.0", "5.1", "7.1"])
def test_each_channel_counts_alike(layout: str) -> None:
    count = av.AudioLayout(layout).nb_channels
    for voice in range(count):
        samples = numpy.zeros((count, 16_000), numpy.float32)
        samples[voice] = melody(1)
        assert numpy.abs(heard(frames(samples, 16_000, layout)) - melody(1) / count).max() < 1e-6


def test_a_form_that_changes_midway() -> None:
    def joined() -> Any:
        yield from frames(melody(2, 44_100)[None], 44_100)
        yield from frames(numpy.tile(melody(2, 8000), (2, 1)), 8000, "stereo")

    out = heard(joined())
    assert len(out) == 64_000
    assert numpy.abs(out - numpy.tile(melody(2), 2))[200:31_800].max() < 1e-3
    assert numpy.abs(out - numpy.tile(melody(2), 2))[32_200:-200].max() < 1e-3


def test_nothing_makes_nothing() -> None:
    assert list(mono([])) == []
