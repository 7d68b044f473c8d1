"""Who shares a mapped model, and that nobody who uses one waits while another is mapped."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.gates import PATIENCE_SECONDS

from edgeserve.engines.llama import model as llama_model
from edgeserve.engines.llama.options import read_options


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Models are plain objects, named by their files; what was freed is listed."""
    told: list[object] = []

    def load(path: Path, *_: object) -> Any:
        return SimpleNamespace(handle=path.name, users=0)

    monkeypatch.setattr(llama_model, "_models", {})
    monkeypatch.setattr(llama_model, "_load", load)
    monkeypatch.setattr(llama_model, "llama", lambda: SimpleNamespace(llama_model_free=told.append))
    return told


def acquire(folder: Path, name: str) -> Any:
    path = folder / name
    path.touch()
    return llama_model.acquire(path, "cpu", read_options("llm", {}))


def test_the_last_user_frees_a_model(tmp_path: Path, freed: list[object]) -> None:
    model = acquire(tmp_path, "a")
    assert acquire(tmp_path, "a") is model
    llama_model.release(model)
    assert llama_model.hold(model)
    llama_model.release(model)
    assert not freed
    llama_model.release(model)
    assert freed == ["a"]
    assert not llama_model.hold(model)
    again = acquire(tmp_path, "a")
    assert again is not model
    llama_model.release(again)


def test_no_answer_waits_while_another_model_is_mapped(
    tmp_path: Path, freed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, load = acquire(tmp_path, "a"), llama_model._load
    loading, go = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> Any:
        loading.set()
        go.wait(PATIENCE_SECONDS)
        return load(*arguments)

    def used() -> None:
        assert llama_model.hold(model)
        llama_model.release(model)

    monkeypatch.setattr(llama_model, "_load", slowly)
    with ThreadPoolExecutor(3) as threads:
        both = [threads.submit(acquire, tmp_path, "b") for _ in range(2)]
        assert loading.wait(PATIENCE_SECONDS)
        try:
            threads.submit(used).result(PATIENCE_SECONDS / 2)
        finally:
            go.set()
        first, second = (one.result(PATIENCE_SECONDS) for one in both)
    assert first is second, "it is mapped once"
    assert first.users == 2
