"""llama-server's router routes: the same acts, in its words."""

from __future__ import annotations

import concurrent.futures
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.hosts import Pipe
from support.http_files import serving_files
from support.managed import managed, model
from support.server import Running, until
from support.store import GGUF, pulled

from edgeserve.api.manage import router
from edgeserve.api.manage.router import differences
from edgeserve.models import catalog
from edgeserve.models.store import Store


def status(running: Running) -> dict[str, Any]:
    data = running.client.get("/models?reload=1").json()["data"]
    return {one["id"]: one["status"] for one in data}


def test_rungs_are_told_in_its_words() -> None:
    with managed({"llm": model(), "mine": model("asr", aliases=("whisper-1",))}) as (running, _):
        assert status(running) == {"fake-llm": {"value": "sleeping"}, "mine": {"value": "unloaded"}}
        assert running.client.get("/models").json()["data"][1]["aliases"] == ["whisper-1"]
        for name in ("whisper-1", "fake-llm"):
            assert running.client.post("/models/load", json={"model": name, "extra": 1}).json() == {"success": True}
        assert {one["value"] for one in status(running).values()} == {"loaded"}
        assert running.client.post("/models/unload", json={"model": "mine"}).json() == {"success": True}
        assert status(running)["mine"] == {"value": "unloaded"}
        assert running.client.post("/models/load", json={"model": "none"}).status_code == 404
        assert running.client.post("/models/load", json={}).status_code == 400


def test_a_way_up_is_told_while_it_lasts(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path, "heat")
    with (
        managed({"mine": model("asr")}, hold=str(tmp_path)) as (running, _),
        concurrent.futures.ThreadPoolExecutor(1) as threads,
    ):
        load = threads.submit(running.client.post, "/models/load", json={"model": "mine"})
        with pipe.reached():
            assert status(running) == {"mine": {"value": "loading"}}
        assert load.result().json() == {"success": True}
        assert status(running) == {"mine": {"value": "loaded"}}


def test_pulled_models_that_are_served_on_demand_are_listed(tmp_path: Path) -> None:
    store = pulled(tmp_path / "models", "shelved")
    pulled(tmp_path / "models", "detector", "vad")
    for serve, more in (("configured", {}), ("stored", {"shelved": {"value": "unloaded"}})):
        with managed({"mine": model("asr")}, store, server={"serve": serve}) as (running, _):
            assert status(running) == {"mine": {"value": "unloaded"}, **more}


def test_a_pull_is_started_shown_cancelled_and_its_model_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMPANIONS", {})
    with serving_files() as files, managed({}, Store(tmp_path / "models")) as (running, _):
        files.data["/one.gguf"], files.gate = GGUF, threading.Event()
        order = {"model": f"{files.url}/one.gguf"}
        assert running.client.post("/models", json=order).json() == {"success": True}
        shown = status(running)["one"]
        assert shown["value"] == "downloading"
        assert list(shown["progress"]) == [order["model"]]
        assert running.client.post("/models/unload", json=order).json() == {"success": True}
        assert status(running) == {}
        files.gate.set()
        running.client.post("/models", json=order).raise_for_status()
        until(lambda: (tmp_path / "models" / "one" / "manifest.json").exists())
        until(lambda: not running.app.state.pulls.running)
        assert running.client.delete("/models", params={"model": "one"}).json() == {"success": True}
        running.client.post("/models", json={"model": f"{files.url}/none.gguf"}).raise_for_status()
        until(lambda: bool(status(running).get("none", {}).get("failed")))


def test_a_name_of_a_hub_is_told_as_it_is_written_here() -> None:
    with managed({}) as (running, _):
        answer = running.client.post("/models", json={"model": "Qwen/Qwen3-0.6B-GGUF:Q8_0"})
        assert answer.status_code == 404
        assert "hub:owner/repository/file.gguf" in answer.json()["error"]["message"]


def test_changes_come_as_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "LOOK_SECONDS", 0.01)
    pipe = Pipe(tmp_path, "heat")
    with (
        managed(hold=str(tmp_path)) as (running, world),
        httpx.stream("GET", f"{running.url}/models/sse", timeout=30) as stream,
        concurrent.futures.ThreadPoolExecutor(1) as threads,
    ):
        lines = stream.iter_lines()
        assert [event(lines), event(lines)] == [told("fake-llm", "sleeping"), told("fake-asr", "unloaded")]
        load = threads.submit(running.client.post, "/models/load", json={"model": "fake-asr"})
        with pipe.reached():
            assert event(lines) == told("fake-asr", "loading")
        load.result().raise_for_status()
        assert event(lines) == told("fake-asr", "loaded")
        world.rewrite({"llm": model()})
        running.client.post("/admin/reload").raise_for_status()
        assert [event(lines)["event"], event(lines)] == [
            "models_reload",
            {"model": "fake-asr", "event": "model_remove", "data": {}},
        ]
        running.server.should_exit = True
        assert "".join(lines) == ""  # the stream ends with the server, whole


def event(lines: Iterator[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(line for line in lines if line).removeprefix("data: "))
    return found


def told(name: str, word: str) -> dict[str, Any]:
    return {"model": name, "event": "model_status", "data": {"status": word}}


def test_differences_lead_from_one_state_to_the_other() -> None:
    one, other = told("a", "loaded"), told("a", "sleeping")
    assert list(differences({}, {"a": one})) == [one]
    assert list(differences({"a": one}, {"a": one})) == []
    assert list(differences({"a": one}, {"a": other})) == [other]
    pulled = {"model": "p", "event": "download_finished", "data": {}}
    assert [each["event"] for each in differences({"p": pulled}, {})] == ["model_remove"]
