"""A models.toml and a store, made up; gates that end with their test, and patience."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gates import PATIENCE_SECONDS, make_gate
from support.store import hibari

from edgeserve.residency.gate import Gate

SETTINGS = """
[llm]
model = "small"
[vision]
model = "seeing"
[asr]
model = "hearing"
[tts]
model = "speaking"
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a models.toml, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture
def models(settings: Path) -> dict[str, str]:
    """An environment whose store holds hibari, in a few bytes, and nothing else."""
    folder = settings / "store" / "hibari"
    folder.mkdir(parents=True)
    (folder / "hibari.onnx").write_bytes(bytes(2048))
    (folder / "manifest.json").write_text(json.dumps(hibari(2048)))
    return {"EDGESERVE_MODELS_DIR": str(settings / "store")}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of a cluster may take their time: on a busy machine, the second that they have is short."""
    monkeypatch.setattr("edgeserve.cluster.reader.SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def gates() -> Iterator[Callable[..., Gate]]:
    made: list[Gate] = []

    def make(*args: Any, **kwargs: Any) -> Gate:
        made.append(make_gate(*args, **kwargs))
        return made[-1]

    yield make
    for gate in made:
        gate.stop()
