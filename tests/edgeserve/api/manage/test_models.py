"""Models moved and removed by hand."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gates import HeldAnswer
from support.managed import managed, model
from support.server import Running

from edgeserve.engine import Rung
from edgeserve.manage.manager import Manager
from edgeserve.models.store import Store
from edgeserve.residency.gate import Gate


def post(running: Running, path: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{running.url}/admin/{path}", json=body, timeout=30)


def stored(root: Path, name: str) -> Path:
    """A pulled model of a few bytes; returns its file."""
    folder = root / name
    folder.mkdir(parents=True)
    file = folder / "model.gguf"
    file.write_bytes(b"fake fake")
    entry = {"name": file.name, "size": 9, "sha256": "0"}
    manifest = {"name": name, "job": "llm", "engine": "edgeserve.engines.llama.chat:LlamaChat", "licence": "MIT"}
    rest = {"source": "https://example.org/model.gguf", "options": {}, "files": {"model": entry}}
    (folder / "manifest.json").write_text(json.dumps(manifest | rest))
    return file


@pytest.mark.parametrize("job", ["llm", "asr"])
def test_a_model_goes_up_and_down_by_hand(job: str) -> None:
    with managed() as (running, world):
        for act, to, rung in [
            ("load", "warm", "warm"),
            ("load", "hot", "hot"),
            ("load", "warm", "hot"),
            ("unload", "warm", "warm"),
            ("unload", "cold", "cold"),
            ("unload", "warm", "cold"),
        ]:
            answer = post(running, act, model=job, to=to)
            assert answer.json() == {"model": f"fake-{job}", "id": job, "rung": rung}, (act, to)
            assert world.pool.rung(job) is Rung[rung.upper()]


def test_hot_and_cold_are_meant_where_nothing_is_said() -> None:
    with managed({"mine": model(aliases=("gpt-*",))}) as (running, _):
        assert post(running, "load", model="gpt-9").json() == {"model": "mine", "id": "mine", "rung": "hot"}
        assert post(running, "unload", model="MINE").json()["rung"] == "cold"


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("load", {"model": "none"}, 404, "models: llm, asr"),
        ("load", {"model": "llm", "to": "cold"}, 400, "must be warm or hot"),
        ("unload", {"model": "llm", "to": "hot"}, 400, "must be cold or warm"),
        ("unload", {}, 400, "model is required"),
    ],
)
def test_a_wrong_move_is_named(path: str, body: dict[str, Any], status: int, words: str) -> None:
    with managed() as (running, _):
        answer = post(running, path, **body)
        assert answer.status_code == status
        assert words in answer.json()["error"]["message"]


def test_a_model_at_work_is_not_unloaded() -> None:
    with managed({"llm": model()}) as (running, world), HeldAnswer(world.pool.gates["llm"]) as held:
        body = {"prompt": "one two"}
        with httpx.stream("POST", f"{running.url}/v1/chat/stream", json=body, timeout=30) as stream:
            lines = stream.iter_lines()
            next(lines)
            refused = post(running, "unload", model="llm")
            assert refused.status_code == 503
            assert "answering a request" in refused.json()["error"]["message"]
            held.go.set()
            assert '"text"' in [line for line in lines if line][-1]


def test_a_stored_model_is_deleted(tmp_path: Path) -> None:
    stored(tmp_path, "old")
    with managed({}, Store(tmp_path)) as (running, _):
        answer = running.client.delete("/admin/models/OLD")
        assert answer.status_code == 404  # a folder's name is exact
        answer = running.client.delete("/admin/models/old")
        assert answer.json() == {"model": "old", "status": "removed"}
        assert not (tmp_path / "old").exists()
        again = running.client.delete("/admin/models/old")
        assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")
        assert "no model 'old' is on this device" in again.json()["error"]["message"]


def test_a_served_model_is_not_deleted(tmp_path: Path) -> None:
    file = stored(tmp_path, "used")
    both = {"mine": model(), "llm": model()}
    with managed(both, Store(tmp_path), files=dict.fromkeys(both, file)) as (running, world):
        answer = running.client.delete("/admin/models/used")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "in_use")
        words = "used is used by [models.mine] and [llm]: take that out of defaults and reload, then remove used"
        assert answer.json()["error"]["message"] == words
        world.rewrite({})
        assert post(running, "reload").json()["removed"] == ["mine", "llm"]
        assert running.client.delete("/admin/models/used").status_code == 200
        assert not file.exists()


def test_a_companion_of_a_served_model_is_in_use(tmp_path: Path) -> None:
    stored(tmp_path, "silero-vad")
    with managed({"mine": model("asr")}, Store(tmp_path), files={"mine": tmp_path / "silero-vad" / "model.gguf"}) as (
        running,
        _,
    ):
        assert running.client.delete("/admin/models/silero-vad").status_code == 409


@pytest.mark.parametrize("name", ["..", "../..", "%2e%2e", "a/b", "/etc", ".lock-x"])
def test_nothing_outside_of_the_store_is_deleted(tmp_path: Path, name: str) -> None:
    stored(tmp_path / "store", "kept")
    (tmp_path / "other").mkdir()
    with managed({}, Store(tmp_path / "store")) as (running, _):
        answer = running.client.delete(f"/admin/models/{name}")
        assert answer.status_code >= 400
    assert (tmp_path / "other").exists()
    assert (tmp_path / "store" / "kept" / "model.gguf").exists()


def test_a_model_that_is_served_on_demand_leaves_before_its_files(tmp_path: Path) -> None:
    file = stored(tmp_path, "used")
    with (
        managed({"used": model()}, Store(tmp_path), files={"used": file}) as (running, world),
        HeldAnswer(world.pool.gates["used"]) as held,
    ):
        manager = running.app.state.manager
        manager.config = dataclasses.replace(manager.config, models={})  # no table names it
        body = {"model": "used", "prompt": "one two"}
        with httpx.stream("POST", f"{running.url}/v1/chat/stream", json=body, timeout=30) as stream:
            lines = stream.iter_lines()
            next(lines)
            refused = httpx.delete(f"{running.url}/admin/models/used")
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "in_use")
            assert file.exists()
            held.go.set()
            assert '"text"' in [line for line in lines if line][-1]
        assert running.client.delete("/admin/models/used").status_code == 200
        assert dict(world.pool.gates) == {}
        assert not file.exists()


def test_a_model_may_be_removed_while_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Manager.load

    async def removed(manager: Manager, name: str, to: Rung) -> Rung:
        rung = await load(manager, name, to)
        await manager._pool.remove(name)
        return rung

    monkeypatch.setattr(Manager, "load", removed)
    with managed() as (running, _):
        assert post(running, "load", model="llm").json() == {"model": "fake-llm", "id": "llm", "rung": "hot"}
        assert post(running, "load", model="llm").status_code == 404


def test_models_that_wait_to_be_mapped_hold_up_no_other_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that a request loads is held until its memory is free, which may take minutes."""
    go, waiting = threading.Event(), threading.Semaphore(0)

    def slow(gate: Gate) -> None:
        waiting.release()
        assert go.wait(20)

    with managed() as (running, _), concurrent.futures.ThreadPoolExecutor() as threads:
        assert post(running, "unload", model="llm").json()["rung"] == "cold"
        monkeypatch.setattr(Gate, "map", slow)
        loads = [threads.submit(post, running, "load", model="llm", to="warm") for _ in range(3)]
        try:
            for _ in loads:
                assert waiting.acquire(timeout=10)
            assert post(running, "reload").status_code == 200
        finally:
            go.set()
        assert [one.result().status_code for one in loads] == [200] * 3


def test_models_on_this_device_are_listed(tmp_path: Path) -> None:
    stored(tmp_path, "one")
    (stored(tmp_path, "two").parent / "manifest.json").write_text("{")
    with managed({"one": model()}, Store(tmp_path)) as (running, _):
        one, two = running.client.get("/admin/models").json()["models"]
        assert one == {"name": "one", "job": "llm", "size_bytes": 9, "licence": "MIT", "served": True}
        assert (two["name"], two["served"]) == ("two", False)
        assert "manifest.json" in two["error"]["message"]
