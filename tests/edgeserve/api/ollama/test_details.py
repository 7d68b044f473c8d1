"""A model's figures, from files that tell them and files that do not."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest
from support.cases import each
from support.gates import fake_spec
from support.store import GGUF, pulled

from edgeserve.api.ollama import details
from edgeserve.engine import ModelSpec


@each(
    ("parameters", "told"),
    [(0, ""), (7, "7"), (999, "999"), (4_300_000_000, "4.3B"), (7_000_000_000, "7B"), (134_515_008, "134.52M")],
)
def test_sizes(parameters: int, told: str) -> None:
    assert details.size(parameters) == told


def test_a_model_that_tells_nothing_is_described(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "broken.Q8_0.gguf"
    path.write_bytes(b"no GGUF")
    spec = ModelSpec("llm", "broken", "edgeserve.engines.llama.chat:LlamaChat", {"model": path})
    found = details.described(spec)
    assert (found["size"], found["details"]["format"], found["details"]["family"]) == (7, "gguf", "unknown")
    assert found["details"]["quantization_level"] == "Q8_0"
    assert details.info(spec) == {"general.architecture": "unknown"}
    assert "broken cannot be described" in caplog.text


def test_facts_are_read_anew_for_changed_files(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"1")
    spec = dataclasses.replace(fake_spec(), files={"model": path})
    first, digest = details.facts(spec), details.digest(spec)
    assert details.facts(spec) is first
    path.write_bytes(b"22")
    assert details.facts(spec) is not first
    assert details.digest(spec) != digest


def test_the_digest_and_the_licence_are_the_stores(tmp_path: Path) -> None:
    stored = pulled(tmp_path, "small").find("small")
    spec = ModelSpec("llm", "small", stored.engine, stored.files)
    assert details.digest(spec) == hashlib.sha256(GGUF).hexdigest()
    assert details.licence(spec) == "Apache-2.0"
    assert details.licence(fake_spec()) == ""


def test_a_model_without_files_has_a_digest_of_its_own() -> None:
    assert details.digest(fake_spec()) == details.digest(fake_spec())
    assert details.modified(fake_spec()) == "1970-01-01T00:00:00.000000Z"
    assert details.capabilities(fake_spec("tts")) == []
