"""POST /api/pull and DELETE /api/delete over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.cases import each
from support.http_files import Files, serving_files
from support.managed import managed, model
from support.server import Running, until
from support.store import GGUF, pulled

from edgeserve.api.ollama.pull import told
from edgeserve.engines.fake.engine import MARK
from edgeserve.errors import StoreError
from edgeserve.models import catalog
from edgeserve.models.pull import Pull, PullState
from edgeserve.models.store import Store


@pytest.fixture
def files() -> Iterator[Files]:
    """A model whose body stops after 1 KB until the gate opens."""
    with serving_files() as files:
        files.data = {"/one.gguf": GGUF}
        files.gate = threading.Event()
        yield files


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(catalog, "COMPANIONS", {})
    with managed({"llm": model()}, Store(tmp_path / "models")) as (running, _):
        yield running


def test_a_pull_tells_its_progress_and_ends_in_success(running: Running, files: Files) -> None:
    assert files.gate
    with running.client.stream("POST", "/api/pull", json={"model": f"{files.url}/one.gguf"}) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        found = map(json.loads, answer.iter_lines())
        first = next(found)
        files.gate.set()
        rest = list(found)
    assert first == {"status": "pulling manifest"}
    assert rest[-1] == {"status": "success"}
    for one in rest:
        assert one["status"] in ("pulling manifest", "verifying sha256 digest", "writing manifest", "success") or (
            one["status"] == f"pulling {one['digest'].removeprefix('sha256:')[:12]}" and one["total"] == len(GGUF)
        )


def test_a_pull_without_a_stream(running: Running, files: Files) -> None:
    assert files.gate
    files.gate.set()
    answer = running.client.post("/api/pull", json={"name": f"{files.url}/one.gguf", "stream": False})
    assert answer.json() == {"status": "success"}
    gone = running.client.post("/api/pull", json={"name": f"{files.url}/gone.gguf", "stream": False})
    assert gone.status_code == 503
    assert set(gone.json()) == {"error"}


def test_a_failure_is_the_last_line(running: Running, files: Files) -> None:
    answer = running.client.post("/api/pull", json={"model": f"{files.url}/gone.gguf"})
    last = json.loads(answer.text.splitlines()[-1])
    assert set(last) == {"error"}


def test_an_unknown_name_is_ollamas_error_before_the_stream(running: Running) -> None:
    answer = running.client.post("/api/pull", json={"model": "no-such-model-at-all"})
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("pull model manifest: file does not exist: ")
    assert running.client.post("/api/pull", json={}).status_code == 400


@pytest.mark.parametrize("name", ["fake-llm", "fake-llm:latest", "llm"])
def test_a_model_that_is_served_needs_no_source(running: Running, name: str) -> None:
    answer = running.client.post("/api/pull", json={"model": name, "insecure": True})
    assert [json.loads(line) for line in answer.text.splitlines()] == [{"status": "success"}]
    assert running.client.post("/api/pull", json={"model": name, "stream": False}).json() == {"status": "success"}


def test_a_catalogue_name_may_be_written_as_in_ollama(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def start(what: str) -> Any:
        asked.append(what)
        raise StoreError("as arranged")

    monkeypatch.setattr(running.app.state.pulls, "start", start)
    for name in ("qwen2.5:0.5b", "smollm2:latest", "smollm2-135m-instruct"):
        assert running.client.post("/api/pull", json={"model": name}).json() == {"error": "as arranged"}
    assert asked == ["qwen2.5-0.5b", "smollm2", "smollm2-135m-instruct"]


def test_who_leaves_the_stream_ends_the_pull(running: Running, files: Files) -> None:
    with httpx.stream("POST", f"{running.url}/api/pull", json={"model": f"{files.url}/one.gguf"}) as answer:
        lines = answer.iter_lines()
        next(lines)
        until(lambda: bool(running.app.state.pulls.all()))
        (pull,) = running.app.state.pulls.all()
    until(lambda: pull.state.over)
    assert pull.state.stage == "cancelled"


STATES: list[tuple[PullState, dict[str, Any]]] = [
    (PullState("queued"), {"status": "pulling manifest"}),
    (PullState("download", "one", 0, 0), {"status": "pulling manifest"}),
    (PullState("verify", "one", 1, 2), {"status": "verifying sha256 digest"}),
    (PullState("convert", "one", 1, 2), {"status": "writing manifest"}),
    (PullState("prepare", "one", 1, 2), {"status": "writing manifest"}),
    (PullState("cancelled", "one"), {"error": "the pull of one was cancelled"}),
    (PullState("failed", "one", error=StoreError("no source")), {"error": "no source"}),
]


@each(("state", "line"), STATES)
def test_each_stage_has_a_line(state: PullState, line: dict[str, Any]) -> None:
    assert told(Pull("one", "one", ""), state) == line


def test_the_bar_of_a_catalogue_model_has_its_checksum() -> None:
    entry = catalog.find("smollm2")
    line = told(Pull("one", "one", ""), PullState("download", entry.name, 5, 9))
    assert line["digest"] == f"sha256:{entry.checksums['model']}"
    assert (line["completed"], line["total"]) == (5, 9)


def test_a_model_is_deleted_by_either_key(tmp_path: Path) -> None:
    store = pulled(tmp_path, "one")
    pulled(tmp_path, "two")
    (tmp_path / "two" / "model.gguf").write_bytes(MARK)
    with managed({"llm": model(name="two")}, store, files={"llm": tmp_path / "two" / "model.gguf"}) as (running, _):
        client = running.client

        def delete(**body: str) -> httpx.Response:
            return client.request("DELETE", "/api/delete", json=body)

        answer = delete(name="one:latest")
        assert (answer.status_code, answer.content) == (200, b"")
        assert not (tmp_path / "one").exists()
        missing = delete(model="one")
        assert (missing.status_code, missing.json()["error"][:22]) == (404, "model 'one' not found,")
        used = delete(model="two")
        assert (used.status_code, "is used by [llm]" in used.json()["error"]) == (409, True)
