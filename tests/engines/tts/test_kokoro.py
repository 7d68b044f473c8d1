"""Kokoro's interface on a graph that only echoes its style: which inputs it gets, and what is refused."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy
import onnx
import pytest
from support.cases import each

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.tts.kokoro import blend
from edgeserve.engines.tts.onnx import GRAPH_SHARE, OnnxTextToSpeech, prepare
from edgeserve.engines.tts.phonemes import Phonemizers, mapped_bytes
from edgeserve.errors import ConfigError, EngineFailure, InvalidRequest
from edgeserve.messages import SpeakRequest


def build(path: Path, tokens: str) -> Path:
    """audio = style × speed + 0 × sum(tokens): 256 samples."""
    make, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        make.make_node("Mul", ["style", "speed"], ["loud"]),
        make.make_node("Cast", [tokens], ["numbers"], to=kinds.FLOAT),
        make.make_node("ReduceSum", ["numbers"], ["sum"], keepdims=0),
        make.make_node("Mul", ["sum", "zero"], ["nothing"]),
        make.make_node("Add", ["loud", "nothing"], ["audio"]),
    ]
    inputs = [
        make.make_tensor_value_info(tokens, kinds.INT64, [1, "n"]),
        make.make_tensor_value_info("style", kinds.FLOAT, [1, 256]),
        make.make_tensor_value_info("speed", kinds.FLOAT, [1]),
    ]
    outputs = [make.make_tensor_value_info("audio", kinds.FLOAT, [1, 256])]
    zero = onnx.numpy_helper.from_array(numpy.float32(0), "zero")
    graph = make.make_graph(nodes, "kokoro", inputs, outputs, [zero])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9), str(path))
    return path


def voice(path: Path) -> Path:
    """Row n holds n / 1000 throughout."""
    numpy.repeat(numpy.arange(510, dtype="<f4") / 1000, 256).tofile(path)
    return path


def spec_of(**files: Path) -> ModelSpec:
    return ModelSpec(
        "tts", "kokoro", "edgeserve.engines.tts.onnx:OnnxTextToSpeech", files, options={"family": "kokoro"}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: the phonemizer's tables are made in it."""
    return tmp_path_factory.mktemp("kokoro")


def spoken(engine: OnnxTextToSpeech, text: str, **settings: object) -> list[int]:
    """The number of phonemes of each piece, which is the level of its sound here."""
    events = engine.speak(SpeakRequest(text, **settings), threading.Event())  # type: ignore[arg-type]
    return [round(float(numpy.frombuffer(event.pcm, "<i2").mean()) * 1000 / 32767) for event in events]


@pytest.mark.slow
@pytest.mark.parametrize("tokens", ["tokens", "input_ids"])
def test_the_style_is_that_of_the_length(folder: Path, tokens: str) -> None:
    files = {"model": build(folder / f"{tokens}.onnx", tokens), "af_heart": voice(folder / "af_heart.bin")}
    engine = OnnxTextToSpeech(spec_of(**files))
    assert engine.voices() == ("af_heart",)
    engine.open()
    engine.heat()
    phonemizer = Phonemizers(folder / "prepared", (False,))[False]
    (piece,) = phonemizer.pieces("Hello there.", 100)
    assert spoken(engine, "Hello there.") == [len(phonemizer.ids(piece)) - 2]
    with pytest.raises(InvalidRequest, match="voices: af_heart"):
        spoken(engine, "Hello.", voice="heart")
    engine.close()


@pytest.mark.slow
def test_each_voice_speaks_in_its_own_accent(folder: Path) -> None:
    """American and British differ in the number of phonemes: British vowels carry marks of length."""
    files = {
        "model": build(folder / "two.onnx", "tokens"),
        "af_heart": voice(folder / "af_heart.bin"),
        "bm_george": voice(folder / "bm_george.bin"),
        "jf_alpha": voice(folder / "jf_alpha.bin"),
    }
    engine = OnnxTextToSpeech(spec_of(**files))
    assert engine.voices() == ("af_heart", "bm_george")  # no phonemizer reads Japanese
    weights = int(GRAPH_SHARE * files["model"].stat().st_size)
    assert engine.estimate().mapped == mapped_bytes((False, True)) + weights
    engine.open()
    engine.heat()
    assert engine.footprint().mapped >= mapped_bytes((False, True))
    phonemizers = Phonemizers(folder / "prepared", (False, True))
    text = "The father had a bath."
    counts = {british: len("".join(phonemizers[british].pieces(text, 100))) for british in (False, True)}
    assert counts[False] != counts[True]
    assert spoken(engine, text, voice="af_heart") == [counts[False]]
    assert spoken(engine, text, voice="bm_george") == [counts[True]]
    engine.close()


@each(
    ("voice", "shares"),
    [
        ("af_heart", {"af_heart": 1.0}),
        ("af_heart:3", {"af_heart": 1.0}),
        ("af_heart+am_adam", {"af_heart": 0.5, "am_adam": 0.5}),
        ("af_heart:0.7, am_adam:0.3", {"af_heart": 0.7, "am_adam": 0.3}),
        ("af_heart:2+am_adam", {"af_heart": 2 / 3, "am_adam": 1 / 3}),
        ("af_heart+am_adam+af_heart:2", {"af_heart": 0.75, "am_adam": 0.25}),
    ],
)
def test_blends(voice: str, shares: dict[str, float]) -> None:
    assert blend(voice) == pytest.approx(shares)


@each(
    "voice",
    ["", "+", "af_heart+", "af_heart:0", "af_heart:-1", "af_heart:101", "a:b", "a:1:2", "a:1e3", "a/b"],
)
def test_what_is_no_blend(voice: str) -> None:
    with pytest.raises(InvalidRequest, match="is no blend: write af_heart") as caught:
        blend(voice)
    assert caught.value.param == "voice"


@pytest.mark.slow
def test_a_blend_speaks(folder: Path) -> None:
    """Between its voices, as near to each as its weight says, and in the accent of the heaviest."""
    flat = folder / "bm_flat.bin"
    numpy.full((510, 256), 0.9, "<f4").tofile(flat)
    files = {"model": build(folder / "b.onnx", "tokens"), "af_heart": voice(folder / "af_heart.bin"), "bm_flat": flat}
    engine = OnnxTextToSpeech(spec_of(**files))
    engine.open()
    engine.heat()
    text = "The father had a bath."
    phonemizers = Phonemizers(folder / "prepared", (False, True))
    american, british = (len("".join(phonemizers[one].pieces(text, 100))) for one in (False, True))
    assert spoken(engine, text, voice="af_heart:0.7,bm_flat:0.3") == [round(0.7 * american + 0.3 * 900)]
    assert spoken(engine, text, voice="af_heart+bm_flat:1.5") == [round(0.4 * british + 0.6 * 900)]
    with pytest.raises(InvalidRequest, match="unknown voice 'am_adam'; voices: af_heart, bm_flat"):
        spoken(engine, text, voice="af_heart+am_adam")
    engine.close()


@pytest.mark.slow
def test_a_blend_can_be_the_default(folder: Path) -> None:
    files = {"model": build(folder / "k.onnx", "tokens"), "af_heart": voice(folder / "af_heart.bin")}
    files["am_adam"] = voice(folder / "am_adam.bin")
    options = {"family": "kokoro", "voice": "af_heart+am_adam"}
    engine = OnnxTextToSpeech(ModelSpec("tts", "kokoro", "", files, options=options))
    assert engine.voices() == ("af_heart+am_adam", "af_heart", "am_adam")
    engine.open()
    engine.heat()
    assert spoken(engine, "Hello there.") == spoken(engine, "Hello there.", voice="af_heart")
    (folder / "am_adam.bin").unlink()
    with pytest.raises(EngineFailure, match=r"am_adam\.bin: the voice cannot be read any more"):
        spoken(engine, "Hello there.")
    engine.close()


@pytest.mark.slow
def test_pieces_are_short_and_shorter_for_slow_speech(folder: Path) -> None:
    files = {"model": build(folder / "k.onnx", "tokens"), "af_heart": voice(folder / "af_heart.bin")}
    engine = OnnxTextToSpeech(spec_of(**files))
    engine.open()
    engine.heat()
    text = "word " * 100
    assert 70 < max(spoken(engine, text)) <= 100
    slow = [len(event.pcm) for event in engine.speak(SpeakRequest(text, speed=0.25), threading.Event())]
    assert len(slow) >= 2 * len(spoken(engine, text)) - 1
    engine.close()


@pytest.mark.slow
def test_what_is_fetched_ahead(tmp_path: Path) -> None:
    """Voices as pulled; graph and dictionaries as they are, or will be, prepared."""
    files = {"model": build(tmp_path / "k.onnx", "tokens"), "af_heart": voice(tmp_path / "af_heart.bin")}
    engine = OnnxTextToSpeech(spec_of(**files))
    tables = {"tagger.words", "lexicon_us.words"}
    assert {path.name for path in engine.prefetch_files()} == {"k.onnx", "af_heart.bin", *tables}
    assert files["model"] in engine.prefetch_files()
    told: list[tuple[int, int]] = []
    prepare(engine.spec, lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert all(path.is_file() for path in engine.prefetch_files())
    assert files["model"] not in engine.prefetch_files()


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["model", "af_heart"])
def test_a_model_without_its_parts_is_refused(folder: Path, missing: str) -> None:
    files = {"model": build(folder / "k.onnx", "tokens"), "af_heart": voice(folder / "af_heart.bin")}
    del files[missing]
    engine = OnnxTextToSpeech(spec_of(**files))
    with pytest.raises(EngineFailure, match="needs a model and English voices"):
        engine.open()
    assert engine.rung is Rung.COLD


@pytest.mark.slow
def test_a_default_voice_that_is_not_there_is_refused(folder: Path) -> None:
    files = {"model": build(folder / "k.onnx", "tokens"), "af_heart": voice(folder / "af_heart.bin")}
    options = {"family": "kokoro", "voice": "af_sky"}
    with pytest.raises(ConfigError, match=r"\[tts\] voice = 'af_sky': kokoro has no such voice; voices: af_heart"):
        OnnxTextToSpeech(ModelSpec("tts", "kokoro", "", files, options=options))
    with pytest.raises(ConfigError, match=r"\[tts\] voice: the voice 'af heart' is no blend"):
        OnnxTextToSpeech(ModelSpec("tts", "kokoro", "", files, options={**options, "voice": "af heart"}))


@pytest.mark.slow
def test_a_runtime_that_fails_while_computing(folder: Path) -> None:
    files = {"model": build(folder / "k.onnx", "tokens"), "af_heart": voice(folder / "af_heart.bin")}
    engine = OnnxTextToSpeech(spec_of(**files))
    engine.open()
    engine.heat()
    engine._voice._tokens = "nothing"  # type: ignore[union-attr]
    with pytest.raises(EngineFailure, match="failed while computing"):
        spoken(engine, "Hello.")
    engine.close()


@pytest.mark.slow
def test_a_damaged_voice_is_named(folder: Path) -> None:
    (folder / "v.bin").write_bytes(b"abc")
    engine = OnnxTextToSpeech(spec_of(model=build(folder / "k.onnx", "tokens"), af_heart=folder / "v.bin"))
    with pytest.raises(EngineFailure, match=r"v\.bin: not a voice of Kokoro"):
        engine.open()
