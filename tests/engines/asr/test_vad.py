"""Silero's detector: its probabilities, and the stretches of speech that come of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.speech import SENTENCES, spoken

from edgeserve.engines.asr.segments import FRAME
from edgeserve.engines.asr.stretches import Place, Stretch
from edgeserve.engines.asr.vad import TURN_FRAMES, Listener, Vad
from edgeserve.engines.asr.whisper import transcribe
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import DetectRequest

RATE = 16_000
PAUSE = numpy.zeros(4 * RATE, numpy.float32)

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def vad(pulled: Callable[[str], Mapping[str, Path]]) -> Vad:
    return Vad(pulled("whisper-tiny.en")["vad"])


@pytest.fixture(scope="module")
def talk() -> Any:
    """Four seconds of silence, a sentence, and so on; silence."""
    parts = [part for text in SENTENCES[:2] for part in (PAUSE, spoken(text))]
    return numpy.concatenate([*parts, PAUSE]).astype(numpy.float32)


def pieces(samples: Any, size: int) -> Iterator[Any]:
    return (samples[at : at + size] for at in range(0, len(samples), size))


def found_in(told: Iterable[Stretch | None]) -> list[Stretch]:
    return [one for one in told if one is not None]


def test_probabilities_are_those_of_the_reference(vad: Vad, talk: Any) -> None:
    from faster_whisper.vad import get_vad_model

    whole = talk[: len(talk) // FRAME * FRAME]
    listener = Listener(vad._session)
    ours = [chance for piece in pieces(whole, 50 * FRAME) for chance in listener.chances(piece)]
    assert ours == pytest.approx(get_vad_model()(whole.copy()), abs=1e-5)


@pytest.mark.parametrize("size", [1_000, 10 * RATE, 60 * RATE])
def test_stretches_hold_the_sentences_however_the_audio_comes(vad: Vad, talk: Any, size: int) -> None:
    first, second = found_in(vad.stretches(pieces(talk, size), transcribe.SPEECH))
    at = 0
    for stretch, text in ((first, SENTENCES[0]), (second, SENTENCES[1])):
        at += len(PAUSE)
        loud = at + numpy.flatnonzero(abs(spoken(text)) > 0.02)
        assert loud[0] - 0.6 * RATE <= stretch.start <= loud[0]
        assert loud[-1] <= stretch.start + len(stretch.samples) <= loud[-1] + 0.6 * RATE
        assert (stretch.samples == talk[stretch.start : stretch.start + len(stretch.samples)]).all()
        assert len(stretch.voiced) == len(stretch.samples) // FRAME
        at += len(spoken(text))


def test_stretches_come_again_from_the_place_of_each(vad: Vad, talk: Any) -> None:
    """Also that of a stretch in whose block another one begins, and of the last one, behind which no sound follows."""
    sound = numpy.concatenate([talk, spoken(SENTENCES[1]), talk[len(PAUSE) : -len(PAUSE)]])
    found = found_in(vad.stretches(pieces(sound, 10 * RATE), transcribe.SPEECH))
    assert len(found) == 4
    for number, one in enumerate(found):
        place = Place(one.start, json.loads(json.dumps(one.detector)))
        again = found_in(vad.stretches(pieces(sound[one.start :], 3 * RATE), transcribe.SPEECH, place))
        assert [(two.start, two.samples.tolist(), list(two.voiced)) for two in again] == [
            (two.start, two.samples.tolist(), list(two.voiced)) for two in found[number:]
        ]


def test_silence_and_nothing_hold_no_speech(vad: Vad) -> None:
    noise = 1e-3 * numpy.random.default_rng(0).standard_normal(20 * RATE)
    for samples in (PAUSE, noise.astype(numpy.float32), PAUSE[:100]):
        assert found_in(vad.stretches([samples], transcribe.SPEECH)) == []


def test_others_have_their_turn_in_a_long_silence(vad: Vad) -> None:
    """Two hours of silence took 20 s of an engine that other transcriptions wait for."""
    silence = numpy.zeros(5 * TURN_FRAMES * FRAME // 2, numpy.float32)
    assert list(vad.stretches(pieces(silence, 10 * RATE), transcribe.SPEECH)) == [None, None]


def test_a_turn_of_the_detector_is_no_longer_than_a_step_of_a_decoder(vad: Vad) -> None:
    """A short dictation takes eight turns. Beside two hours of silence each lasted for 0.3 s, two minutes of sound."""
    assert len(list(vad.stretches([numpy.zeros(120 * RATE, numpy.float32)], transcribe.SPEECH))) >= 8


def test_others_have_their_turn_while_no_sound_comes(vad: Vad, talk: Any) -> None:
    full = list(pieces(talk[: 600 * FRAME], RATE))
    late = [part for one in full for part in (talk[:0], one, talk[:0])]
    told, expected = (list(vad.stretches(arrays, transcribe.SPEECH)) for arrays in (late, full))
    assert told.count(None) - expected.count(None) == 2 * len(full)
    found = found_in(told)
    assert [one.start for one in found] == [one.start for one in found_in(expected)]
    assert found


def test_pieces_with_the_state_between_them_have_the_chances_of_the_whole(vad: Vad, talk: Any) -> None:
    whole = talk[: 300 * FRAME]
    expected = Listener(vad._session).chances(whole)
    found: list[float] = []
    state = b""
    for piece in pieces(whole, 7 * FRAME):
        answer = vad.detect(DetectRequest(piece.tobytes(), state))
        found, state = [*found, *answer.chances], answer.state
    assert found == pytest.approx(expected, abs=1e-5)
    assert max(found) > 0.9


@pytest.mark.parametrize(("samples", "state"), [(bytes(100), b""), (bytes(4 * FRAME), bytes(12))])
def test_samples_and_states_of_another_length_are_refused(vad: Vad, samples: bytes, state: bytes) -> None:
    with pytest.raises(InvalidRequest, match="no whole frames"):
        vad.detect(DetectRequest(samples, state))


def test_another_graph_is_an_engine_failure(tmp_path: Path) -> None:
    path = tmp_path / "vad.onnx"
    path.write_bytes(b"no graph")
    with pytest.raises(EngineFailure, match=r"vad\.onnx"):
        Vad(path)
