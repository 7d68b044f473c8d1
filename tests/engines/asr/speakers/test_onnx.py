"""Resemblyzer's encoder on voices: who speaks when, and its memory."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.contract import resumed, told
from support.diarizer import DiarizerContract
from support.piper import needs_phonemizer, noiseless
from support.speech import SENTENCES, STORY, at_16k, spoken

from edgeserve.engine import Listed, ModelSpec
from edgeserve.engines.asr.segments import FRAME
from edgeserve.engines.asr.speakers.expected import footprint
from edgeserve.engines.asr.speakers.onnx import OnnxDiarizer
from edgeserve.engines.asr.vad import TURN_FRAMES
from edgeserve.engines.tts.onnx import OnnxTextToSpeech
from edgeserve.errors import EngineFailure
from edgeserve.messages import DiarizeRequest, Pcm, SpeakerEvent, SpeakRequest
from edgeserve.models import catalog

Pulled = Callable[[str], Mapping[str, Path]]

GAP = numpy.zeros(6400, numpy.float32)


def spec_of(files: Mapping[str, Path]) -> ModelSpec:
    return ModelSpec("speaker", "resemblyzer", "", files, threads=2)


def test_a_model_without_its_files_says_what_to_do() -> None:
    with pytest.raises(EngineFailure, match=r"resemblyzer has no file 'model'; `edgeserve pull resemblyzer` again"):
        OnnxDiarizer(spec_of({})).estimate()


def test_a_model_of_unknown_size_has_no_expectation() -> None:
    assert footprint(Listed("speaker", {}, 100)) is None


@pytest.fixture(scope="module")
def joe(pulled: Pulled, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """A man's voice; the starter's voice is a woman's."""
    files = noiseless(pulled("piper-en-us-joe-medium"), tmp_path_factory.mktemp("joe"))
    engine = OnnxTextToSpeech(ModelSpec("tts", "joe", "", files, threads=2, options={"family": "piper"}))
    engine.heat()

    def say(text: str) -> Any:
        pieces = told(engine.speak(SpeakRequest(text), threading.Event()))
        samples = numpy.frombuffer(b"".join(one.pcm for one in pieces), "<i2").astype(numpy.float32) / 32768
        return at_16k(samples, pieces[0].sample_rate)

    return say


@pytest.mark.models
@needs_phonemizer
class TestResemblyzer(DiarizerContract):
    make = OnnxDiarizer

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def said(cls, joe: Callable[[str], Any]) -> None:
        cls.first, cls.second = spoken(SENTENCES[1]).tobytes(), joe(SENTENCES[2]).tobytes()

    @pytest.fixture
    def spec(self, pulled: Pulled) -> ModelSpec:
        return spec_of(pulled("resemblyzer"))

    def test_a_conversation_of_two_voices(self, hot: Any, joe: Callable[[str], Any]) -> None:
        """At most 3% of the speech has a wrong speaker, 0.25 s around each change aside."""
        said = [(who, say(text)) for text in SENTENCES for who, say in enumerate((spoken, joe))]
        ends = numpy.cumsum([len(one) + len(GAP) for _, one in said]) / 16_000
        sound = numpy.concatenate([part for _, one in said for part in (one, GAP)])
        turns = told(hot.diarize(DiarizeRequest(Pcm(sound.tobytes())), threading.Event()))
        assert {one.speaker for one in turns} == {0, 1}
        wrong = sum(
            misheard(turns, who, start, end) for (who, _), start, end in zip(said, [0, *ends], ends, strict=False)
        )
        assert wrong <= 0.03 * ends[-1]

    @pytest.mark.parametrize("reader", ["hibari", "joe"])
    def test_one_reader_is_one_speaker(self, hot: Any, joe: Callable[[str], Any], reader: str) -> None:
        sound = Pcm((spoken if reader == "hibari" else joe)(STORY).tobytes())
        turns = told(hot.diarize(DiarizeRequest(sound), threading.Event()))
        assert {one.speaker for one in turns} == {0}
        assert sum(one.end - one.start for one in turns) > 0.7 * sound.seconds

    def test_behind_a_rest_all_is_as_without(self, hot: Any, joe: Callable[[str], Any]) -> None:
        """References are not heard again, and nothing is missing or comes twice, wherever the answer may rest."""
        said = [say(text) for text in (*SENTENCES, STORY) for say in (spoken, joe)]
        sound = Pcm(numpy.concatenate([part for one in said for part in (one, GAP)]).tobytes())
        request = DiarizeRequest(sound, (Pcm(self.second), Pcm(self.first)))
        alone = told(hot.diarize(request, threading.Event()))
        asked: list[DiarizeRequest] = []

        def answer(one: DiarizeRequest) -> Iterator[Any]:
            asked.append(replace(one, references=(Pcm(b""),) * 2 if one.rest else one.references))
            return hot.diarize(asked[-1], threading.Event())

        assert {one.speaker for one in alone} == {0, 1}
        assert list(resumed(answer, request)) == alone
        assert len(asked) - 1 >= sound.seconds // 45

    def test_others_have_their_turn_in_a_long_silence(self, hot: Any) -> None:
        silence = Pcm(bytes(4 * FRAME * TURN_FRAMES * 5 // 2))
        assert list(hot.diarize(DiarizeRequest(silence), threading.Event())) == [None, None]

    def test_the_catalogue_expects_what_the_engine_estimates(self, engine: Any) -> None:
        entry = catalog.find("resemblyzer")
        expected = footprint(Listed("speaker", entry.sizes, entry.size_bytes, entry.parameters))
        assert expected is not None
        assert expected.total == pytest.approx(engine.estimate().total, rel=0.05)

    def test_it_takes_no_more_than_its_estimate(self, engine: Any) -> None:
        """Less where the heap of this process has free pages; a fresh process: docs/decisions/0041-speakers.md."""
        engine.heat()
        assert 0 < engine.footprint().private <= 1.15 * engine.estimate().private


def misheard(turns: list[SpeakerEvent], who: int, start: float, end: float) -> float:
    """Seconds from ``start`` to ``end``, the edges aside, in which another than ``who`` is said to speak."""
    low, high = start + 0.25, end - len(GAP) / 16_000 - 0.25
    others = (one for one in turns if one.speaker != who)
    return sum(max(0.0, min(one.end, high) - max(one.start, low)) for one in others)


def test_what_is_misheard_is_counted() -> None:
    turns = [SpeakerEvent(0, 2, 0), SpeakerEvent(2, 3, 1)]
    assert misheard(turns, 0, 0.0, 3.9) == pytest.approx(1.0)
    assert misheard(turns, 1, 0.0, 3.9) == pytest.approx(1.75)
    assert not any(itertools.starmap(misheard, [(turns, 0, 0.0, 2.3), ([], 0, 0.0, 9.0)]))
