"""A recogniser of tones for the tests: a NeMo CTC graph, in onnx-asr's layout, whose words depend on the audio.

NeMo's features have mean 0 and deviation 1 in each mel band. A band near a tone stands above 0.7 while the tone
sounds, else below. Around 300 Hz is "low", around 4 kHz "high", anything else blank.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy

RATE = 16_000
VOCABULARY = ("\u2581low", "\u2581high", "<blk>")
MELS = 80
LOW, HIGH = slice(5, 12), slice(58, 65)
SHARPNESS = 20.0


def build(folder: Path) -> dict[str, Path]:
    """Files by role, as the catalogue names them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy.zeros((MELS, 3), numpy.float32)
    weights[LOW, 0] = weights[HIGH, 1] = SHARPNESS / 7
    bias = numpy.array([0, 0, 0.7 * SHARPNESS], numpy.float32)
    nodes = [
        helper.make_node("AveragePool", ["audio_signal"], ["pooled"], kernel_shape=[8], strides=[8], ceil_mode=1),
        helper.make_node("Transpose", ["pooled"], ["rows"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["rows", "weights"], ["scores"]),
        helper.make_node("Add", ["scores", "bias"], ["shifted"]),
        helper.make_node("LogSoftmax", ["shifted"], ["logprobs"], axis=-1),
    ]
    inputs = [
        helper.make_tensor_value_info("audio_signal", TensorProto.FLOAT, ["b", MELS, "t"]),
        helper.make_tensor_value_info("length", TensorProto.INT64, ["b"]),
    ]
    outputs = [helper.make_tensor_value_info("logprobs", TensorProto.FLOAT, ["b", "s", 3])]
    constants = [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")]
    graph = helper.make_graph(nodes, "tones", inputs, outputs, constants)
    opset = helper.make_opsetid("", 20)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), str(folder / "model.onnx"))
    lines = (f"{token} {number}\n" for number, token in enumerate(VOCABULARY))
    (folder / "vocab.txt").write_text("".join(lines), encoding="utf-8")
    config = {"model_type": "nemo-conformer-ctc", "features_size": MELS, "subsampling_factor": 8}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return {role: folder / name for role, name in FILES.items()}


FILES = {"model": "model.onnx", "vocabulary": "vocab.txt", "config": "config.json"}


def tones(*hertz: float, seconds: float = 1.0, pause: float = 0.5) -> Any:
    """float32 samples: each tone after a pause of faint noise."""
    noise = numpy.random.default_rng(0)
    times = numpy.arange(int(seconds * RATE)) / RATE
    parts = []
    for one in hertz:
        parts.append(1e-4 * noise.standard_normal(int(pause * RATE)))
        parts.append(0.5 * numpy.sin(2 * numpy.pi * one * times))
    parts.append(1e-4 * noise.standard_normal(int(pause * RATE)))
    return numpy.concatenate(parts).astype(numpy.float32)
