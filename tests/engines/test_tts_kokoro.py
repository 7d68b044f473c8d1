"""Kokoro's interface on a graph that only echoes its style: which inputs it gets, and what is refused."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy
import onnx
import pytest

from edgeserve.engine import ModelSpec
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import SpeakRequest
from engines.tts_onnx import OnnxTextToSpeech
from engines.tts_phonemes import Phonemizer


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
    return ModelSpec("tts", "kokoro", "engines.tts_onnx:OnnxTextToSpeech", files, options={"family": "kokoro"})


@pytest.mark.parametrize("tokens", ["tokens", "input_ids"])
def test_the_style_is_that_of_the_length(tmp_path: Path, tokens: str) -> None:
    files = {"model": build(tmp_path / "k.onnx", tokens), "af_heart": voice(tmp_path / "af_heart.bin")}
    engine = OnnxTextToSpeech(spec_of(**files))
    assert engine.voices() == ("af_heart",)
    engine.open()
    (event,) = engine.speak(SpeakRequest("Hello there."), threading.Event())
    phonemizer = Phonemizer()
    (piece,) = phonemizer.pieces("Hello there.")
    count = len(phonemizer.ids(piece)) - 2
    samples = numpy.frombuffer(event.pcm, "<i2")
    assert samples == pytest.approx(count / 1000 * 32767, abs=1)
    with pytest.raises(InvalidRequest, match="voices: af_heart"):
        list(engine.speak(SpeakRequest("Hello.", voice="heart"), threading.Event()))
    engine.close()


def test_a_model_without_voices_is_refused(tmp_path: Path) -> None:
    engine = OnnxTextToSpeech(spec_of(model=build(tmp_path / "k.onnx", "tokens")))
    assert engine.voices() == ()
    with pytest.raises(EngineFailure, match="has no voice file"):
        engine.open()


def test_a_damaged_voice_is_named(tmp_path: Path) -> None:
    (tmp_path / "v.bin").write_bytes(b"abc")
    engine = OnnxTextToSpeech(spec_of(model=build(tmp_path / "k.onnx", "tokens"), af_heart=tmp_path / "v.bin"))
    with pytest.raises(EngineFailure, match=r"v\.bin: not a voice of Kokoro"):
        engine.open()
