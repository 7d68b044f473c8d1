"""Whisper through the contract, and against faster-whisper on the checkpoint it was converted from."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.contract import SpeechToTextContract
from support.speech import SENTENCES, STORY, spoken, word_error_rate
from support.transcripts import CancelAfter, transcribe

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.engines.asr.whisper import features
from edgeserve.engines.asr.whisper import onnx as whisper_onnx
from edgeserve.engines.asr.whisper.transcribe import Whisper
from edgeserve.engines.onnx.prepare import Prepared
from edgeserve.errors import ConfigError, EngineFailure, InvalidRequest
from edgeserve.messages import Pcm, SegmentEvent, TranscribeRequest, TranscriptEnd
from edgeserve.system import pages

Pulled = Callable[[str], Mapping[str, Path]]

pytestmark = pytest.mark.models


def spec_of(files: Mapping[str, Path], **options: object) -> ModelSpec:
    return ModelSpec(
        "asr", "whisper-tiny.en", "edgeserve.engines.asr.onnx:OnnxSpeechToText", files, threads=2, options=options
    )


@pytest.fixture(scope="module")
def engine(pulled: Pulled) -> Iterator[OnnxSpeechToText]:
    """In float32 and window after window, as the reference."""
    engine = OnnxSpeechToText(spec_of(pulled("whisper-tiny.en"), quantization="none", windows=1))
    engine.heat()
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def small(pulled: Pulled) -> Iterator[OnnxSpeechToText]:
    engine = OnnxSpeechToText(spec_of(pulled("whisper-tiny.en"), quantization="int8"))
    engine.heat()
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def bare(pulled: Pulled) -> Iterator[OnnxSpeechToText]:
    """Without voice-activity detection, as the reference: with Whisper's own times."""
    engine = OnnxSpeechToText(spec_of(pulled("whisper-tiny.en"), quantization="none", vad=False, windows=1))
    engine.heat()
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def reference(checkpoint: Path) -> Any:
    from faster_whisper import WhisperModel

    return WhisperModel(str(checkpoint), device="cpu", compute_type="float32", cpu_threads=2)


@pytest.fixture(scope="module")
def theirs(reference: Any) -> Callable[[str], list[Any]]:
    """Segments of the reference for a sentence, with the times of words; computed once."""

    @functools.cache
    def heard(sentence: str) -> list[Any]:
        segments, _ = reference.transcribe(spoken(sentence), beam_size=1, language="en", word_timestamps=True)
        return list(segments)

    return heard


def text_of(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, SegmentEvent))


class TestWhisper(SpeechToTextContract):
    make = OnnxSpeechToText

    @property
    def pcm(self) -> bytes:  # type: ignore[override]
        return bytes(spoken(SENTENCES[0]).tobytes())

    @pytest.fixture
    def spec(self, pulled: Pulled) -> ModelSpec:
        return spec_of(pulled("whisper-tiny.en"))


@pytest.mark.parametrize("sentence", [*SENTENCES[:3], STORY], ids=lambda text: text[:20])
def test_text_and_words_are_those_of_the_reference(
    engine: OnnxSpeechToText, bare: OnnxSpeechToText, theirs: Callable[[str], list[Any]], sentence: str
) -> None:
    """With the times of words, the reference ends a segment with its last word; ours keeps Whisper's own time."""
    samples, expected = spoken(sentence), theirs(sentence)
    ours = transcribe(bare, samples, word_timestamps=True)[:-1]
    assert text_of(ours) == "".join(segment.text for segment in expected)
    assert text_of(transcribe(engine, samples)) == text_of(ours)
    assert [one.end for one in ours] == pytest.approx([one.end for one in expected], abs=0.75)
    assert word_error_rate(sentence, text_of(ours)) <= 0.10
    said = [word for segment in ours for word in segment.words]
    words = [word for segment in expected for word in segment.words]
    assert [word.text for word in said] == [word.word for word in words]
    apart = [abs(one.start - other.start) for one, other in zip(said, words, strict=True)]
    assert sorted(apart)[int(0.9 * len(apart))] <= 0.25
    assert all(one.start <= one.end for one in said)


@pytest.mark.parametrize("sentence", [*SENTENCES, STORY], ids=lambda text: text[:20])
def test_in_int8_no_word_is_lost(small: OnnxSpeechToText, theirs: Callable[[str], list[Any]], sentence: str) -> None:
    expected = word_error_rate(sentence, "".join(segment.text for segment in theirs(sentence)))
    assert word_error_rate(sentence, text_of(transcribe(small, spoken(sentence)))) <= expected + 0.02


def test_int8_takes_a_third_of_the_memory(engine: OnnxSpeechToText, small: OnnxSpeechToText) -> None:
    assert small.estimate().mapped < 0.33 * engine.estimate().mapped


def test_an_unknown_quantization_is_named(pulled: Pulled) -> None:
    with pytest.raises(ConfigError, match="quantization = 'int4': expected one of auto, none, int8"):
        OnnxSpeechToText(spec_of(pulled("whisper-tiny.en"), quantization="int4"))


def test_encoder_states_are_those_of_the_reference(engine: OnnxSpeechToText, reference: Any) -> None:
    from faster_whisper.feature_extractor import FeatureExtractor

    samples = spoken(SENTENCES[1])
    mel = features.window(features.log_mel(samples, 80), 0)
    theirs = FeatureExtractor(feature_size=80)(samples)
    assert mel[0, :, : theirs.shape[1]] == pytest.approx(theirs, abs=1e-4)
    states = engine._model._model.graphs._encoder.now().run(["states"], {"mel": mel})[0]  # type: ignore[union-attr]
    expected = numpy.array(reference.encode(mel[0]))
    assert states == pytest.approx(expected, abs=2e-2)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc/self/smaps")
@pytest.mark.parametrize("quantization", ["none", "int8"])
@pytest.mark.parametrize("form", ["prepared", "as pulled"])
def test_every_weight_is_mapped_and_none_is_resident_when_warm(
    pulled: Pulled, form: str, quantization: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = pulled("whisper-tiny.en")
    if form == "as pulled":
        monkeypatch.setattr(
            whisper_onnx, "prepared", lambda path, data, device: Prepared(path, tuple(data), "original")
        )
    engine = OnnxSpeechToText(spec_of(files, quantization=quantization))
    engine.open()
    data, weights = engine._files.mapped, engine.estimate().mapped
    assert all((path in files.values()) == (form == "as pulled") for path in data)
    held = pages.resident_mapped(*data)
    assert engine.footprint().private < 0.1 * weights
    engine.heat()
    assert pages.resident_mapped(*data) - held >= 0.99 * weights
    transcribe(engine, spoken(SENTENCES[0]))
    engine.park()
    assert pages.resident_mapped(*data) == 0
    ranges = len(list(pages.mappings(*data)))
    engine.close()
    assert len(list(pages.mappings(*data))) < ranges


def test_prepared_or_not_the_text_is_the_same(
    engine: OnnxSpeechToText, pulled: Pulled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whisper_onnx, "prepared", lambda path, data, device: Prepared(path, tuple(data), "original"))
    plain = OnnxSpeechToText(spec_of(pulled("whisper-tiny.en"), quantization="none"))
    plain.heat()
    samples = spoken(SENTENCES[1])
    theirs = transcribe(plain, samples, word_timestamps=True)
    plain.close()
    ours = transcribe(engine, samples, word_timestamps=True)
    assert text_of(ours) == text_of(theirs)
    assert [one.tokens for one in ours[:-1]] == [one.tokens for one in theirs[:-1]]
    assert [one.avg_logprob for one in ours[:-1]] == pytest.approx([one.avg_logprob for one in theirs[:-1]], abs=1e-3)
    assert [one.words for one in ours[:-1]] == [one.words for one in theirs[:-1]]


def test_segments_carry_their_figures(engine: OnnxSpeechToText) -> None:
    *segments, end = transcribe(engine, spoken(SENTENCES[0]))
    assert isinstance(end, TranscriptEnd)
    assert end.language == "en"
    assert all(-1.0 < one.avg_logprob < 0 and one.tokens and one.no_speech_prob < 0.5 for one in segments)


def test_a_prompt_steers_the_spelling(engine: OnnxSpeechToText) -> None:
    assert text_of(transcribe(engine, spoken(SENTENCES[0]), prompt="A story about animals."))


def test_no_audio_is_an_empty_transcript(engine: OnnxSpeechToText) -> None:
    assert transcribe(engine, []) == [TranscriptEnd("en", 0.0)]


def test_cancel_stops_within_a_token(engine: OnnxSpeechToText) -> None:
    cancel = CancelAfter(5)
    request = TranscribeRequest(Pcm(spoken(STORY).tobytes()))
    assert not any(engine.transcribe(request, cancel))
    assert cancel.asked == 6


def test_cancel_in_the_second_window_ends_within_it(engine: OnnxSpeechToText) -> None:
    """The engine gives no event of the second window, transcribes none of the two after it, and reads no more audio."""
    speech = numpy.concatenate([spoken(one) for one in (STORY, *SENTENCES) * 3])
    cancel, read, windows, model = threading.Event(), [0], [0], engine._model
    assert isinstance(model, Whisper)
    assert len(speech) > 90 * 16_000
    listen = model._model.graphs.listen

    class Told:
        def pieces(self) -> Iterator[bytes]:
            for piece in Pcm(speech.tobytes()).pieces():
                read[0] += len(piece) // 64_000
                yield piece

    def second(mel: Any, place: dict[str, Any]) -> None:
        windows[0] += 1
        if windows[0] == 2:
            cancel.set()
        listen(mel, place)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(model._model.graphs, "listen", second)
        events = [one for one in engine.transcribe(TranscribeRequest(Told()), cancel) if one is not None]
    assert windows == [2]
    assert events
    assert all(isinstance(one, SegmentEvent) and one.end <= 32 for one in events)
    assert read[0] <= 80


def test_transcriptions_that_take_turns_hear_the_same_as_alone(small: OnnxSpeechToText) -> None:
    """In int8, where one call for both would let each change the words of the other."""
    clips = [spoken(STORY), spoken(SENTENCES[0])]
    alone = [transcribe(small, clip, word_timestamps=True) for clip in clips]
    requests = [TranscribeRequest(Pcm(clip.tobytes()), word_timestamps=True) for clip in clips]
    under_way = [small.transcribe(request, threading.Event()) for request in requests]
    together: list[list[Any]] = [[], []]
    for turn in itertools.zip_longest(*under_way):
        for heard, event in zip(together, turn, strict=True):
            heard += [] if event is None else [event]
    assert together == alone
    assert small.slots == 2


def test_another_language_is_refused_by_an_english_model(engine: OnnxSpeechToText) -> None:
    with pytest.raises(InvalidRequest, match="English only") as caught:
        transcribe(engine, spoken(SENTENCES[0]), language="de")
    assert caught.value.param == "language"


def test_missing_roles_are_named(pulled: Pulled) -> None:
    files = dict(pulled("whisper-tiny.en"))
    del files["cross"], files["cross_int8"]
    engine = OnnxSpeechToText(spec_of(files))
    with pytest.raises(EngineFailure, match="lacks cross"):
        engine.open()
    assert engine.rung is Rung.COLD
