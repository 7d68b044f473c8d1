"""The history: shape of a record, bound, counts, and the name of a quantization."""

from __future__ import annotations

from pathlib import Path

from support.cases import each

from edgeserve.engine import ModelSpec, Rung
from edgeserve.memory.history import History, StepRecord, quantization
from edgeserve.units import MB


def record(after: Rung = Rung.WARM, number: int = 0) -> StepRecord:
    return StepRecord("asr", f"m{number}", "int8", "idle", Rung.HOT, after, 1200 * MB, 1150 * MB, 1704067200.123)


def test_the_reference_documents_shape() -> None:
    assert record().as_json() == {
        "model_name": "m0",
        "model_type": "asr",
        "quantization": "int8",
        "reason": "idle",
        "action": "offloaded",
        "expected_mb": 1200.0,
        "memory_freed_mb": 1150.0,
        "exact": True,
        "timestamp": 1704067200.123,
    }
    assert record(Rung.COLD).as_json()["action"] == "unloaded"


def test_the_history_keeps_the_last_records_and_counts_all() -> None:
    history = History(limit=3)
    for number in range(5):
        history.add(record(Rung.COLD if number % 2 else Rung.WARM, number))
    assert [one.model for one in history] == ["m2", "m3", "m4"]
    assert (history.counts["offloaded"], history.counts["unloaded"]) == (3, 2)


@each(
    ("name", "file", "expected"),
    [
        ("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("qwen", "qwen2.5-q4_k_m.gguf", "q4_k_m"),
        ("kokoro-int8", "model.onnx", "int8"),
        ("whisper", "encoder_float16.onnx", "float16"),
        ("qwen-bf16", "model.gguf", "bf16"),
        ("whisper-tiny.en", "model.onnx", "default"),
    ],
)
def test_the_quantization_is_read_off_the_names(name: str, file: str, expected: str) -> None:
    assert quantization(ModelSpec("llm", name, "e:E", {"model": Path("/x") / file})) == expected


def test_an_option_names_the_quantization() -> None:
    assert quantization(ModelSpec("llm", "m-q8_0", "e:E", options={"quantization": "mixed"})) == "mixed"
