"""Models of onnx-asr's families, on a recogniser of tones built here."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy
import pytest
from support import tone_asr
from support.contract import SpeechToTextContract
from support.transcripts import rested, transcribe

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.asr import families
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.engines.asr.stretches import Place, Stretch
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import Pcm, SegmentEvent, TranscribeRequest, TranscriptEnd

pytestmark = pytest.mark.slow

HIGH, LOW = 4000.0, 300.0


def spec_in(folder: Path, **options: object) -> ModelSpec:
    settings = {"family": "nemo-conformer-ctc", **options}
    return ModelSpec("asr", "tones", "", tone_asr.build(folder), threads=1, options=settings)


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    engine = OnnxSpeechToText(spec_in(tmp_path))
    engine.heat()
    yield engine
    engine.close()


class TestFamily(SpeechToTextContract):
    make = OnnxSpeechToText
    pcm: ClassVar[bytes] = bytes(tone_asr.tones(LOW, HIGH, LOW).tobytes())

    @pytest.fixture
    def spec(self, tmp_path: Path) -> ModelSpec:
        return spec_in(tmp_path)


def test_what_is_heard_depends_on_the_audio(engine: OnnxSpeechToText) -> None:
    segment, end = transcribe(engine, tone_asr.tones(LOW, HIGH, HIGH, LOW))
    assert segment.text == " low high high low"
    assert segment.start == pytest.approx(0.5, abs=0.1)
    assert -0.5 < segment.avg_logprob < 0
    assert segment.words == ()
    assert end == TranscriptEnd("en", 6.5)


def test_words_begin_with_their_tones(engine: OnnxSpeechToText) -> None:
    segment, _ = transcribe(engine, tone_asr.tones(LOW, HIGH, LOW), word_timestamps=True)
    assert [word.text for word in segment.words] == [" low", " high", " low"]
    assert [word.start for word in segment.words] == pytest.approx([0.5, 2.0, 3.5], abs=0.1)
    assert all(word.start < word.end for word in segment.words)


def test_long_audio_is_heard_window_by_window_without_loss(engine: OnnxSpeechToText) -> None:
    samples = tone_asr.tones(*[LOW, HIGH] * 25)
    *segments, end = transcribe(engine, samples, word_timestamps=True)
    assert end.duration == pytest.approx(75.5)
    assert len(segments) == 3
    assert "".join(segment.text for segment in segments).split() == ["low", "high"] * 25
    starts = [word.start for segment in segments for word in segment.words]
    assert starts == pytest.approx(numpy.arange(50) * 1.5 + 0.5, abs=0.1)


def test_an_answer_that_rests_has_the_words_of_one_that_does_not(engine: OnnxSpeechToText) -> None:
    samples = tone_asr.tones(*[LOW, HIGH] * 50)
    assert rested(engine, samples, word_timestamps=True) == (transcribe(engine, samples, word_timestamps=True), 2)


def test_stretches_of_speech_keep_their_place_in_the_file(
    engine: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch
) -> None:
    def split(arrays: Iterable[Any], place: Place) -> Iterator[Stretch]:
        samples = numpy.concatenate(list(arrays))
        for start in (0, 20 * 16_000):
            yield Stretch(start, samples[start : start + 56_000])

    silence = numpy.zeros(264_000, numpy.float32)
    samples = numpy.concatenate([tone_asr.tones(LOW, HIGH), silence, tone_asr.tones(HIGH, LOW)])
    monkeypatch.setattr(engine._model, "_split", split)
    first, second, end = transcribe(engine, samples, word_timestamps=True)
    assert [first.text, second.text] == [" low high", " high low"]
    assert [first.start, second.start] == pytest.approx([0.5, 20.5], abs=0.1)
    assert second.words[0].start == second.start
    assert end.duration == 23.5


def test_a_long_silence_gives_others_their_turn(engine: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = tone_asr.tones(LOW, HIGH)
    monkeypatch.setattr(engine._model, "_split", lambda arrays, place: iter([None, Stretch(0, *arrays), None, None]))
    events = list(engine.transcribe(TranscribeRequest(Pcm(samples.tobytes())), threading.Event()))
    assert [type(one) for one in events] == [type(None), SegmentEvent, type(None), type(None), TranscriptEnd]


def test_cancel_stops_at_the_next_window(engine: OnnxSpeechToText) -> None:
    cancel = threading.Event()
    events = engine.transcribe(TranscribeRequest(Pcm(tone_asr.tones(*[LOW, HIGH] * 15).tobytes())), cancel)
    assert isinstance(next(events), SegmentEvent)
    cancel.set()
    assert list(events) == []


def test_parking_gives_back_what_is_not_mapped(engine: OnnxSpeechToText) -> None:
    engine.park()
    assert engine.rung is Rung.COLD
    assert engine.footprint().total == 0


def test_an_unknown_family_is_an_engine_failure(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="cannot open it as klingon"):
        OnnxSpeechToText(spec_in(tmp_path, family="klingon")).open()


def test_a_damaged_graph_is_an_engine_failure(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    spec.files["model"].write_bytes(b"not a graph")
    with pytest.raises(EngineFailure, match="onnx-asr cannot open"):
        OnnxSpeechToText(spec).open()


def result(**settings: Any) -> Any:
    return SimpleNamespace(**{"text": "a", "tokens": None, "timestamps": None, "logprobs": None, **settings})


@pytest.mark.parametrize(
    ("param", "settings"),
    [("model", {"translate": True}), ("prompt", {"prompt": "Tones."}), ("temperature", {"temperature": 0.5})],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    engine: OnnxSpeechToText, param: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        transcribe(engine, tone_asr.tones(LOW), **settings)
    assert caught.value.param == param


@pytest.mark.parametrize("length", [1, 2, 100, 399])
def test_a_moment_of_sound_is_no_failure_of_the_engine(engine: OnnxSpeechToText, length: int) -> None:
    (end,) = transcribe(engine, numpy.ones(length, numpy.float32))
    assert end == TranscriptEnd("en", length / 16_000)


def test_families_get_enough_samples_for_a_spectrum() -> None:
    given: list[Any] = []

    class Model:
        def with_timestamps(self) -> Any:
            return SimpleNamespace(recognize=lambda samples, **_: given.append(samples) or result(text=""))

    model = families.OnnxAsrModel(Model(), families.windows)
    for length in (1, 1599, 1600, 5000):
        list(model.transcribe(TranscribeRequest(Pcm(numpy.ones(length, "<f4").tobytes())), threading.Event()))
    assert [len(one) for one in given] == [1600, 1600, 1600, 5000]
    assert given[1].sum() == 1599


@pytest.mark.parametrize(("language", "error"), [("xx", InvalidRequest), ("yy", EngineFailure)])
def test_an_unknown_language_is_no_failure_of_the_engine(language: str, error: type[Exception]) -> None:
    class Model:
        def with_timestamps(self) -> Any:
            return SimpleNamespace(recognize=lambda samples, **_: {}["<|xx|>"])

    model = families.OnnxAsrModel(Model(), families.windows)
    sound = Pcm(numpy.ones(5000, "<f4").tobytes())
    with pytest.raises(error) as caught:
        list(model.transcribe(TranscribeRequest(sound, language=language), threading.Event()))
    assert type(caught.value) is error


def test_words_without_times_are_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        families.segment(result(), 0.0, 1.0, TranscribeRequest(Pcm(b""), word_timestamps=True))
    assert caught.value.param == "timestamp_granularities"
    assert families.segment(result(), 0.0, 1.0, TranscribeRequest(Pcm(b""))).end == 1.0


def test_tokens_are_joined_to_words() -> None:
    tokens, times = [" he", "l", "lo", ",", " you"], [0.0, 0.08, 0.16, 0.24, 1.0]
    words = list(families.words_of(tokens, times, 1.24))
    assert [(word.text, word.start, word.end) for word in words] == [(" hello,", 0.0, 0.48), (" you", 1.0, 1.24)]


def test_a_window_ends_in_the_quietest_place() -> None:
    samples = numpy.ones(60 * 16_000, numpy.float32)
    samples[26 * 16_000 : 26 * 16_000 + 640] = 0.0
    first, *others = families.windows([samples[:70_000], samples[70_000:]])
    assert 26 * 16_000 <= len(first.samples) <= 26 * 16_000 + 640
    assert first.start == 0
    assert all(len(one.samples) <= 30 * 16_000 for one in others)
    assert sum(len(one.samples) for one in (first, *others)) == len(samples)
    (only,) = families.windows([samples[: 30 * 16_000]])
    assert len(only.samples) == 30 * 16_000
