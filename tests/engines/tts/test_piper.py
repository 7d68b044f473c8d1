"""Piper voices: the settings beside the network, what the network is given, and the real voice."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from support.contract import TextToSpeechContract
from support.piper import needs_phonemizer, noiseless
from support.speech import STORY

from edgeserve.engine import ModelSpec
from edgeserve.engines.tts import onnx as tts_onnx
from edgeserve.engines.tts.onnx import OnnxTextToSpeech
from edgeserve.engines.tts.piper import _FEW_DOTS, Piper, Settings
from edgeserve.engines.tts.text import normal
from edgeserve.engines.tts.text.cut import MAX_SENTENCE
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import SpeakRequest

Pulled = Callable[[str], Mapping[str, Path]]

SETTINGS: dict[str, Any] = {
    "audio": {"sample_rate": 16_000},
    "espeak": {"voice": "en-us"},
    "inference": {"noise_scale": 0.5, "length_scale": 2.0, "noise_w": 0.25},
    "phoneme_id_map": {"_": [0], "^": [1], "$": [2], " ": [3], "h": [4], "ə": [5], "l": [6], "o": [7], "ʊ": [8]},
    "num_speakers": 2,
    "speaker_id_map": {"ann": 0, "bob": 1},
}


def build(path: Path) -> Path:
    """output = [sid, length, the three scales, all ids]."""
    make, kinds = onnx.helper, onnx.TensorProto
    names = {"sid": [1], "input_lengths": [1], "input": [1, "n"]}
    nodes = [make.make_node("Cast", [name], [f"{name}_f"], to=kinds.FLOAT) for name in names]
    nodes += [
        make.make_node("Reshape", ["input_f", "flat"], ["ids"]),
        make.make_node("Concat", ["sid_f", "input_lengths_f", "scales", "ids"], ["output"], axis=0),
    ]
    inputs = [make.make_tensor_value_info(name, kinds.INT64, shape) for name, shape in names.items()]
    inputs.append(make.make_tensor_value_info("scales", kinds.FLOAT, [3]))
    flat = onnx.numpy_helper.from_array(numpy.asarray([-1]), "flat")
    output = make.make_tensor_value_info("output", kinds.FLOAT, ["m"])
    graph = make.make_graph(nodes, "piper", inputs, [output], [flat])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9), str(path))
    return path


def settings_at(folder: Path, **changed: Any) -> Path:
    path = folder / "voice.onnx.json"
    path.write_text(json.dumps({**SETTINGS, **changed}), encoding="utf-8")
    return path


def spec_of(**files: Path) -> ModelSpec:
    return ModelSpec(
        "tts", "voice", "edgeserve.engines.tts.onnx:OnnxTextToSpeech", files, threads=2, options={"family": "piper"}
    )


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("piper") / "voice.onnx")


@pytest.fixture(scope="module")
def echo(network: Path) -> Iterator[OnnxTextToSpeech]:
    engine = OnnxTextToSpeech(spec_of(model=network, config=settings_at(network.parent)))
    engine.heat()
    yield engine
    engine.close()


@needs_phonemizer
def test_the_network_gets_ids_lengths_scales_and_the_speaker(echo: OnnxTextToSpeech) -> None:
    assert echo.voices() == ("ann", "bob")
    voice: Any = echo._voice
    (samples,) = voice.say("hə z", "bob", 2.0)
    assert list(samples) == [1, 9, 0.5, 1.0, 0.25, 1, 0, 4, 0, 5, 0, 3, 0, 2]
    events = list(echo.speak(SpeakRequest("Hello.", voice="ann"), threading.Event()))
    assert [event.sample_rate for event in events] == [16_000]


@pytest.mark.slow
@needs_phonemizer
def test_english_is_read_in_words_and_other_languages_as_they_stand(
    tmp_path: Path, network: Path, echo: OnnxTextToSpeech
) -> None:
    said = {text: list(echo._voice.pieces(text, "ann", 200)) for text in ("$3.50", "three dollars and fifty cents")}  # type: ignore[union-attr]
    assert len({tuple(pieces) for pieces in said.values()}) == 1
    german = OnnxTextToSpeech(spec_of(model=network, config=settings_at(tmp_path, espeak={"voice": "de"})))
    german.heat()
    (piece,) = german._voice.pieces("5 Äpfel", "ann", 200)  # type: ignore[union-attr]
    assert piece.startswith("fˈ")
    german.close()


@pytest.mark.slow
@needs_phonemizer
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The U.S. Army met at 10 a.m. Monday.", 1),
        ("One. Two!", 2),
        ("[Kokoro](/kˈOkəɹO/)", 1),
        ("...", 0),
        ("", 0),
    ],
)
def test_pieces_are_sentences(echo: OnnxTextToSpeech, text: str, pieces: int) -> None:
    found = [one for one in echo._voice.pieces(text, "ann", 200) if one]  # type: ignore[union-attr]
    assert len(found) == pieces
    assert not any("/" in piece for piece in found)


@needs_phonemizer
def test_letters_are_read_as_letters(echo: OnnxTextToSpeech) -> None:
    (piece,) = echo._voice.pieces("At 10 a.m. in the U.S.", "ann", 200)  # type: ignore[union-attr]
    assert piece.replace(" ", "") == "ættˈɛnˈeɪˈɛmɪnðəjˈuːˈɛs."


@needs_phonemizer
def test_pieces_keep_the_limit(echo: OnnxTextToSpeech) -> None:
    found = list(echo._voice.pieces(STORY + " word" * 500, "ann", 50))  # type: ignore[union-attr]
    assert max(map(len, found)) <= 50


@needs_phonemizer
def test_text_that_espeak_cannot_take(echo: OnnxTextToSpeech) -> None:
    with pytest.raises(InvalidRequest, match="cannot read"):
        list(echo.speak(SpeakRequest("a \0 b"), threading.Event()))


DOTTED = """
import json, sys
from pathlib import Path
from edgeserve.engines.tts.piper import Piper, Settings, _phonemizer
voice = object.__new__(Piper)
voice._settings = Settings.read(Path(sys.argv[1]))
voice._phonemizer = _phonemizer()
voice._phonemes(json.loads(sys.argv[2]))
"""


@pytest.mark.slow
@needs_phonemizer
@pytest.mark.parametrize("text", ["U.S." * 250, "i.e. " * 200, "é.é." * 250, ".ガ" * 500, "𓀀." * 500, "x.y .…" * 150])
def test_letters_with_dots_do_not_overflow_espeak(tmp_path: Path, text: str) -> None:
    config = settings_at(tmp_path, espeak={"voice": "de"})
    done = subprocess.run([sys.executable, "-c", DOTTED, str(config), json.dumps(text)], capture_output=True)
    assert done.returncode == 0, done


@needs_phonemizer
def test_dots_are_not_lost(echo: OnnxTextToSpeech) -> None:
    voice: Any = echo._voice
    assert voice._phonemes("One. Two!") == " ".join(
        "".join(one) for one in voice._phonemizer.phonemize("en-us", "One. Two!")
    )
    assert [*_FEW_DOTS.findall("a." * 30 + "b")] == ["a." * 24, "a." * 6, "b"]


@pytest.mark.slow
@needs_phonemizer
@pytest.mark.parametrize("language", ["en-us", "de"])
def test_marks_are_looked_for_in_one_sentence_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    lengths: list[int] = []
    unmarked = normal.unmarked
    monkeypatch.setattr(normal, "unmarked", lambda text: lengths.append(len(text)) or unmarked(text))
    config = settings_at(tmp_path, espeak={"voice": language})
    engine = OnnxTextToSpeech(spec_of(model=build(tmp_path / "voice.onnx"), config=config))
    engine.heat()
    voice: Any = engine._voice
    assert not any(voice.pieces("[" * 5000, "ann", 200))
    assert 0 < max(lengths) <= MAX_SENTENCE
    engine.close()


@needs_phonemizer
def test_an_unknown_language_is_told_on_opening(tmp_path: Path, network: Path) -> None:
    config = settings_at(tmp_path, espeak={"voice": "xx-none"})
    with pytest.raises(EngineFailure, match="espeak-ng has no voice 'xx-none'"):
        OnnxTextToSpeech(spec_of(model=network, config=config)).open()


def test_without_the_extra_the_command_is_named(tmp_path: Path, network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("piper", "piper.phonemize_espeak"):
        monkeypatch.setitem(sys.modules, name, None)
    engine = OnnxTextToSpeech(spec_of(model=network, config=settings_at(tmp_path)))
    with pytest.raises(EngineFailure, match=r"pip install 'edgeserve\[piper\]', which is GPL"):
        engine.open()
    assert engine.estimate().private > 0


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"phoneme_type": "pinyin"}, "phoneme type 'pinyin'"),
        ({"espeak": {}}, "no settings of a Piper voice"),
        ({"audio": None}, "no settings of a Piper voice"),
        ({"phoneme_id_map": []}, "no settings of a Piper voice"),
    ],
)
def test_settings_that_are_none_are_named(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(EngineFailure, match=told):
        Settings.read(settings_at(tmp_path, **changed))


def test_speakers_without_names_are_numbered(tmp_path: Path) -> None:
    many = Settings.read(settings_at(tmp_path, speaker_id_map={}))
    one = Settings.read(settings_at(tmp_path, num_speakers=1, dataset="joe"))
    assert (many.speakers, one.speakers) == ({"speaker0": 0, "speaker1": 1}, {"joe": 0})


@pytest.mark.parametrize("role", ["model", "config"])
def test_a_voice_without_its_files(tmp_path: Path, network: Path, role: str) -> None:
    files = {"model": network, "config": settings_at(tmp_path)}
    del files[role]
    with pytest.raises(EngineFailure, match=f"voice needs .*{role}"):
        OnnxTextToSpeech(spec_of(**files)).open()


@needs_phonemizer
@pytest.mark.models
class TestJoe(TextToSpeechContract):
    make = OnnxTextToSpeech

    @pytest.fixture(scope="class")
    @classmethod
    def files(cls, pulled: Pulled, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
        """Without noise, for the contract wants equal answers; one test below has the voice as it is."""
        return noiseless(pulled("piper-en-us-joe-medium"), tmp_path_factory.mktemp("joe"))

    @pytest.fixture
    def spec(self, files: dict[str, Path]) -> ModelSpec:
        return spec_of(**files)

    def test_the_voice_as_it_is_gives_sound_samples_that_are_not_clipped(self, pulled: Pulled) -> None:
        engine = OnnxTextToSpeech(spec_of(**pulled("piper-en-us-joe-medium")))
        engine.heat()
        voice: Any = engine._voice
        for piece in voice.pieces("The lift was seldom working. He went for the stairs.", "joe", Piper.max_phonemes):
            (samples,) = voice.say(piece, "joe", 1.0)
            assert numpy.isfinite(samples).all()
            assert 0.01 < numpy.sqrt((samples**2).mean()) < 0.3
            assert (abs(samples) >= 1.0).mean() < 1e-4
        engine.close()

    @pytest.mark.skipif(sys.platform != "linux", reason="resident pages of a mapping are told by Linux only")
    def test_the_estimate_is_near_what_is_taken(self, alone: Any) -> None:
        engine = alone
        tts_onnx.prepare(engine.spec, lambda done, total: None)
        engine.heat()
        taken = engine.footprint()
        assert engine.estimate().mapped + engine.estimate().private == pytest.approx(
            taken.mapped + taken.private, rel=0.15
        )
        engine.park()
        assert engine.footprint().mapped == 0
