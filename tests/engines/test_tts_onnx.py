"""hibari through the contract, and what only a real voice shows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.contract import TextToSpeechContract

from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import SpeakRequest
from engines import tts_hibari
from engines.tts_onnx import OnnxTextToSpeech

Pulled = Callable[[str], Mapping[str, Path]]


@pytest.mark.models
class TestHibari(TextToSpeechContract):
    make = OnnxTextToSpeech

    @pytest.fixture
    def spec(self, pulled: Pulled) -> ModelSpec:
        files = pulled("hibari")
        return ModelSpec("tts", "hibari", "engines.tts_onnx:OnnxTextToSpeech", files, threads=2)

    def test_the_audio_is_that_of_the_package(self, hot: Any) -> None:
        """The same graph in our session gives the samples that hibari's own class gives."""
        from hibari import Hibari

        text = "The quick brown fox jumps over the lazy dog."
        ours = b"".join(event.pcm for event in hot.speak(SpeakRequest(text), threading.Event()))
        theirs = Hibari(threads=2)(text, seed=tts_hibari.SEED)
        got = numpy.frombuffer(ours, "<i2") / 32767.0
        assert len(got) == len(theirs)
        assert numpy.corrcoef(got, theirs)[0, 1] > 0.999

    @pytest.mark.parametrize("text", ["", "  \n", "...", "🙂🙂"])
    def test_unspeakable_text_is_refused(self, hot: Any, text: str) -> None:
        with pytest.raises(InvalidRequest, match="nothing that can be spoken") as caught:
            list(hot.speak(SpeakRequest(text), threading.Event()))
        assert caught.value.param == "text"
        assert hot.rung is Rung.HOT

    @pytest.mark.parametrize("speed", [0.1, 5.0])
    def test_speed_out_of_range(self, hot: Any, speed: float) -> None:
        with pytest.raises(InvalidRequest, match=r"between 0\.25 and 4\.0") as caught:
            list(hot.speak(SpeakRequest("Hello.", speed=speed), threading.Event()))
        assert caught.value.param == "speed"

    def test_a_long_sentence_comes_in_pieces(self, hot: Any) -> None:
        text = ", ".join(["and the little boat went on across the water"] * 20) + "."
        assert len(list(hot.speak(SpeakRequest(text), threading.Event()))) > 2

    def test_a_word_no_lexicon_knows_is_spoken(self, hot: Any) -> None:
        assert list(hot.speak(SpeakRequest("Zorblaxian."), threading.Event()))


def spec_of(path: Path, **options: object) -> ModelSpec:
    return ModelSpec("tts", "x", "engines.tts_onnx:OnnxTextToSpeech", {"model": path}, options=options)


def test_a_file_that_is_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not a graph")
    engine = OnnxTextToSpeech(spec_of(path))
    with pytest.raises(EngineFailure, match=r"model\.onnx"):
        engine.open()
    assert engine.rung is Rung.COLD


def test_an_unknown_family_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="known: hibari"):
        OnnxTextToSpeech(spec_of(tmp_path / "m", family="robot")).open()


def test_a_missing_phonemizer_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hibari", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineFailure, match=r"pip install 'edgeserve\[starter\]'"):
        OnnxTextToSpeech(spec_of(tmp_path / "m")).open()
