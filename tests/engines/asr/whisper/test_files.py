"""The graphs of a Whisper that are used, by processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.device import Device
from edgeserve.engine import ModelSpec
from edgeserve.engines.asr.whisper import files as whisper_files
from edgeserve.errors import ConfigError, EngineFailure

FILES = {
    role: Path(role)
    for part in whisper_files.PARTS
    for role in (part, f"{part}_data", f"{part}_int8", f"{part}_int8_data", "config", "tokenizer")
}


def chosen(quantization: str | None = None, device: Device = "auto") -> list[str]:
    options = {"quantization": quantization} if quantization else {}
    return [path.name for path, _ in whisper_files.graphs(ModelSpec("asr", "w", "", FILES, device, options=options))]


@pytest.mark.parametrize(
    ("machine", "features", "expected"),
    [
        ("aarch64", "", "decoder_int8"),
        ("x86_64", "fpu avx2 avx512_vnni", "decoder_int8"),
        ("x86_64", "fpu avx2 avx_vnni", "decoder_int8"),
        ("x86_64", "fpu avx2 avx512f", "decoder"),
    ],
)
def test_auto_is_int8_where_the_processor_adds_exactly(
    machine: str, features: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whisper_files.platform, "machine", lambda: machine)
    monkeypatch.setattr(whisper_files.cpu, "features", features.split)
    assert chosen()[-1] == chosen("auto")[-1] == expected
    assert chosen("none")[-1] == "decoder"
    assert chosen("int8")[-1] == "decoder_int8"


@pytest.mark.parametrize("device", ["cuda", "metal"])
def test_an_accelerator_gets_float32(device: Device) -> None:
    assert chosen(device=device) == ["encoder", "cross", "decoder"]


def test_a_graph_comes_with_its_weights() -> None:
    spec = ModelSpec("asr", "w", "", FILES, options={"quantization": "int8"})
    assert [data for _, data in whisper_files.graphs(spec)] == [[Path(f"{p}_int8_data")] for p in whisper_files.PARTS]


def test_what_is_not_there_is_named() -> None:
    files = {role: path for role, path in FILES.items() if role != "cross_int8"}
    with pytest.raises(EngineFailure, match="w lacks cross_int8; pull it again"):
        list(whisper_files.graphs(ModelSpec("asr", "w", "", files, options={"quantization": "int8"})))


def test_an_unknown_quantization_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected one of auto, none, int8"):
        whisper_files.check(ModelSpec("asr", "w", "", FILES, options={"quantization": 8}))
