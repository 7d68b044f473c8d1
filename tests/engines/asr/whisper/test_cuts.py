"""Passages of long audio: where they are cut."""

from __future__ import annotations

import numpy
import pytest

from edgeserve.engines.asr.segments import FRAME
from edgeserve.engines.asr.stretches import Stretch, whole
from edgeserve.engines.asr.whisper.cuts import LONGEST, Passage, passages
from edgeserve.engines.asr.whisper.features import HOP
from edgeserve.engines.asr.whisper.joined import Joined

SECOND = 16_000


def joined(seconds: float, silences: list[tuple[float, float]]) -> Joined:
    """Speech but for silences, each with its start and length in seconds."""
    count = round(seconds * SECOND / FRAME)
    voiced = numpy.ones(count, bool)
    for start, length in silences:
        voiced[round(start * SECOND / FRAME) : round((start + length) * SECOND / FRAME)] = False
    samples = numpy.ones(count * FRAME, numpy.float32)
    return Joined(iter([Stretch(0, samples, tuple(voiced.tolist()))]))


@pytest.mark.parametrize(
    ("silences", "cut"),
    [
        ([(20.0, 2.0), (25.0, 0.3), (27.0, 0.5)], 27.25),
        ([(16.0, 0.5), (20.0, 0.3), (28.0, 0.1)], 16.25),
    ],
    ids=["the longest near the end", "else the longest of the second half"],
)
def test_a_passage_ends_in_a_silence(silences: list[tuple[float, float]], cut: float) -> None:
    first, second = passages(joined(40.0, silences))
    assert first.start == 0
    assert first.end == second.start
    assert first.end is not None
    assert first.end / 100 == pytest.approx(cut, abs=0.05)
    assert second.end == 4000


def test_speech_without_a_silence_is_cut_where_it_is_quietest() -> None:
    samples = numpy.ones(40 * SECOND, numpy.float32)
    samples[27 * SECOND : 27 * SECOND + 320] = 0.0
    first, _ = passages(Joined(whole([samples])))
    assert first.end is not None
    assert first.end / 100 == pytest.approx(27.0, abs=0.03)


@pytest.mark.parametrize("length", [1, LONGEST])
def test_audio_of_one_window_is_one_passage(length: int) -> None:
    assert list(passages(Joined(whole([numpy.ones(length, numpy.float32)])))) == [Passage(0, -(-length // HOP))]


def test_no_audio_is_no_passage() -> None:
    assert list(passages(Joined(whole([])))) == []
