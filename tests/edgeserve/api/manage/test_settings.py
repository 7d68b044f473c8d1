"""Settings of a running server: shown, changed, read again; nobody's answer is cut."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gates import HeldAnswer
from support.managed import managed, model
from support.server import Running, until

from edgeserve.config import ResidencySettings, ServerSettings
from edgeserve.engine import Rung
from edgeserve.engines.fake.engine import MARK
from edgeserve.errors import ConfigError
from edgeserve.manage import manager
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.model_settings import AdapterSettings
from edgeserve.settings import Source

"""Words of an answer that takes a while."""


@pytest.fixture(autouse=True)
def same_level() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    yield
    root.setLevel(before)


def reload(running: Running) -> dict[str, Any]:
    answer = httpx.post(f"{running.url}/admin/reload", timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def names(running: Running) -> list[str]:
    return [one["name"] for one in running.client.get("/v1/models").json()["models"]]


def test_a_reload_without_a_change_changes_nothing() -> None:
    with managed() as (running, world):
        gates = dict(world.pool.gates)
        assert reload(running) == {
            "source": "defaults",
            "added": [],
            "removed": [],
            "replaced": [],
            "changed": [],
            "needs_restart": [],
            "still_answering": [],
        }
        assert world.pool.gates == gates


def test_models_come_and_go() -> None:
    with managed() as (running, world):
        llm = world.pool.gates["llm"]
        world.rewrite({"mine": model("tts"), "llm": model()})
        found = reload(running)
        assert (found["added"], found["removed"]) == (["mine"], ["asr"])
        assert names(running) == ["mine", "fake-llm"]
        assert world.pool.gates["llm"] is llm
        assert {entry.resident.id for entry in world.pool.governor.accounts} == {"llm", "mine"}
        assert running.client.post("/v1/tts/synthesize", json={"text": "hello"}).status_code == 200
        assert running.client.post("/memory/evict/asr").status_code == 404  # no engine is configured


Answer = tuple[Iterator[str], HeldAnswer]
"""The rest of an answer that has begun, and the one who lets it come."""


@contextlib.contextmanager
def answering(running: Running, words: int = 1) -> Iterator[Answer]:
    """An answer that has begun, and waits after its first word until its rest is read."""
    body = {"prompt": f"one {'word ' * words}end"}
    with (
        HeldAnswer(running.pool.gates["llm"]) as held,
        httpx.stream("POST", f"{running.url}/v1/chat/stream", json=body, timeout=30) as answer,
    ):
        lines = answer.iter_lines()
        assert "token" in next(lines)
        yield lines, held


def is_whole(answer: Answer) -> bool:
    lines, held = answer
    held.go.set()
    last = [line for line in lines if line][-1]
    return bool(json.loads(last.removeprefix("data: ")).get("text", "").endswith("word end"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload that waits for no answer."""
    monkeypatch.setattr(manager, "PATIENCE_SECONDS", 0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_an_answer_ends_whole_while_its_model_is_removed() -> None:
    with managed({"llm": model()}) as (running, world):
        with answering(running) as answer:
            world.rewrite({})
            found = reload(running)
            assert (found["removed"], found["still_answering"]) == (["llm"], ["llm"])
            (gate,) = world.pool.leaving
            assert gate.rung is Rung.HOT
            refused = httpx.post(f"{running.url}/v1/chat", json={"prompt": "hello"})
            assert refused.status_code == 404
            assert is_whole(answer)
        until(lambda: not world.pool.leaving)
        assert gate.rung is Rung.COLD
        assert list(world.pool.governor.accounts) == []


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_requests_wait_for_the_engine_that_takes_the_place_of_another() -> None:
    with managed({"llm": model()}) as (running, world):
        before = world.pool.gates["llm"]
        with answering(running) as answer:
            world.rewrite({"llm": model(threads=2)})
            found = reload(running)
            assert (found["replaced"], found["still_answering"]) == (["llm"], ["llm"])
            with ThreadPoolExecutor(1) as others:
                asked = others.submit(httpx.post, f"{running.url}/v1/chat", json={"prompt": "hello"}, timeout=30)
                assert is_whole(answer)
                assert asked.result().status_code == 200
        assert world.pool.gates["llm"] is not before
        assert before.rung is Rung.COLD
        (entry,) = world.pool.governor.accounts
        assert entry.resident is world.pool.gates["llm"]


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_model_that_leaves_and_comes_back_meanwhile_has_one_engine_at_a_time() -> None:
    first = model(threads=1)
    with managed({"llm": first}) as (running, world):
        with answering(running) as answer:
            world.rewrite({})
            reload(running)
            world.rewrite({"llm": first})
            assert reload(running)["added"] == ["llm"]
            assert "llm" not in world.pool.gates
            assert is_whole(answer)
        until(lambda: "llm" in world.pool.gates)
        assert running.client.post("/v1/chat", json={"prompt": "hello"}).status_code == 200
        world.rewrite({"llm": model()})
        assert reload(running)["replaced"] == ["llm"]


@pytest.mark.usefixtures("quick")
def test_the_server_ends_while_a_model_leaves_and_another_waits_to_come() -> None:
    with managed({"llm": model(options={"delay": 0.05})}, server={"drain_seconds": 0.2}) as (running, world):
        with answering(running, words=400) as (lines, held):
            world.rewrite({"llm": model()})
            reload(running)
            held.go.set()
            running.server.should_exit = True
            last = json.loads([line for line in lines if line][-1].removeprefix("data: "))
        assert last["error"]["code"] == "shutting_down"


@pytest.mark.parametrize(
    "wrong",
    [
        ConfigError("models.toml, line 3: [llm] contxt is not a known setting; did you mean context?"),
        {"llm": model(name="missing")},
        {"llm": model(), "asr": model("asr", "missing"), "tts": model("tts")},
    ],
)
def test_a_mistake_changes_nothing(wrong: Any) -> None:
    with managed() as (running, world):
        gates, settings = dict(world.pool.gates), running.client.get("/admin/config").json()
        if isinstance(wrong, ConfigError):
            world.settings = wrong
        else:
            world.rewrite(wrong, server=ServerSettings(queue_limit=1))
        answer = running.client.post("/admin/reload")
        assert answer.status_code == 400
        words = answer.json()["error"]["message"]
        assert words.startswith("nothing was changed: ")
        assert "line 3" in words or "is not on this device" in words
        assert world.pool.gates == gates
        assert running.client.get("/admin/config").json() == settings


def test_settings_without_a_file_do_not_take_the_place_of_a_file() -> None:
    with managed() as (running, _):
        running.app.state.manager.config = dataclasses.replace(
            running.app.state.manager.config, source="models.toml", written=Source("models.toml", "")
        )
        answer = running.client.post("/admin/reload")
        assert answer.status_code == 400
        assert "models.toml is gone" in answer.json()["error"]["message"]


def test_keys_change_at_once_or_are_named() -> None:
    with managed() as (running, world):
        found = ServerSettings(isolation="thread", drain_seconds=5.0, queue_limit=3, port=1, log_level="warning")
        world.rewrite(server=found, memory=MemoryPolicy(grace_seconds=1.0), residency=ResidencySettings(warm_after=7.0))
        done = reload(running)
        assert done["changed"] == [
            "[server] log_level",
            "[server] queue_limit",
            "[residency] warm_after",
            "[memory] grace_seconds",
        ]
        assert done["needs_restart"] == ["[server] port"]
        assert [gate.queue_limit for gate in world.pool.gates.values()] == [3, 3]
        assert logging.getLogger().level == logging.WARNING
        assert world.pool.governor.accounts.policy.grace_seconds == 1.0
        assert running.app.state.monitor.policy.warm_after == 7.0
        assert reload(running)["needs_restart"] == ["[server] port"]


def test_a_model_is_tuned_in_its_place() -> None:
    with managed() as (running, world):
        gate = world.pool.gates["llm"]
        world.rewrite({"llm": model(pinned=True, keep_alive="5m", aliases=("gpt-*",)), "asr": model("asr")})
        done = reload(running)
        assert done["changed"] == ["[llm] aliases", "[llm] keep_alive", "[llm] pinned"]
        assert (world.pool.gates["llm"], gate.pinned, gate.keep_alive) == (gate, True, 300.0)
        body = {"model": "gpt-9", "messages": [{"role": "user", "content": "hello"}]}
        assert running.client.post("/v1/chat/completions", json=body).status_code == 200


def test_a_model_that_comes_with_preload_is_loaded() -> None:
    with managed() as (running, world):
        world.rewrite({"llm": model(preload=True), "tts": model("tts", preload=True)})
        found = reload(running)
        assert (found["added"], found["changed"]) == (["tts"], ["[llm] preload"])
        assert [gate.rung for gate in world.pool.gates.values()] == [Rung.WARM, Rung.HOT]


def test_an_engine_that_cannot_be_opened_is_served_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with managed() as (running, world):
        world.rewrite({"llm": model(), "bad": model(options={"fail_on": "open"})})
        assert reload(running)["added"] == ["bad"]
        assert world.pool.rung("bad") is Rung.COLD
        assert running.client.post("/v1/chat", json={"model": "bad", "prompt": "hello"}).status_code == 500
    assert any("bad" in record.message and record.levelname == "WARNING" for record in caplog.records)


def test_the_order_of_the_file_decides_the_default() -> None:
    with managed({"one": model(), "two": model()}) as (running, world):
        chosen = lambda: world.pool.directory.find("", ["llm"])  # noqa: E731
        assert chosen() == "one"
        world.rewrite({"two": model(), "one": model()})
        reload(running)
        assert chosen() == "two"
        rows = running.client.get("/memory/models").json()
        assert [(one["id"], one["default"]) for one in rows] == [("two", True), ("one", False)]


# PATCH


def patch(running: Running, body: Any) -> httpx.Response:
    return running.client.patch("/admin/config", json=body)


def test_a_patch_holds_until_the_next_reload() -> None:
    with managed() as (running, world):
        done = patch(running, {"server": {"queue_limit": 2}, "models": {"llm": {"pinned": True, "keep_alive": "-1"}}})
        assert done.json()["changed"] == ["[server] queue_limit", "[llm] keep_alive", "[llm] pinned"]
        shown = running.client.get("/admin/config").json()
        assert (shown["server"]["queue_limit"], shown["models"]["llm"]["pinned"]) == (2, True)
        assert (world.pool.queue_limit, world.pool.gates["llm"].pinned) == (2, True)
        assert reload(running)["changed"] == ["[server] queue_limit", "[llm] keep_alive", "[llm] pinned"]
        assert (world.pool.queue_limit, world.pool.gates["llm"].pinned) == (8, False)


def test_adapters_are_shown_and_another_list_replaces_the_model(tmp_path: Path) -> None:
    path = tmp_path / "style.gguf"
    path.write_bytes(MARK + MARK)
    with managed({"llm": model(adapters=(AdapterSettings(str(path), 0.5, "style"),))}) as (running, world):
        shown = running.client.get("/admin/config").json()["models"]["llm"]["adapters"]
        assert shown == [{"path": str(path), "scale": 0.5, "name": "style"}]
        world.rewrite({"llm": model(adapters=(AdapterSettings(str(path), 1.0, "style"),))})
        assert reload(running)["replaced"] == ["llm"]


@pytest.mark.parametrize(
    ("body", "words", "param"),
    [
        ({}, "is required", "server"),
        ({"server": []}, "must be an object", "server"),
        ({"wheel": {}}, "not a known field", "wheel"),
        ({"server": {"port": 1}}, "the server reads it at its start", "server.port"),
        ({"server": {"api_key": "x"}}, "the server reads it at its start", "server.api_key"),
        ({"server": {"log_levl": "info"}}, "did you mean log_level?", "server.log_levl"),
        ({"server": {"queue_limit": -1}}, "expected a whole number of at least 0", "queue_limit"),
        ({"server": {"queue_limit": "3"}}, "expected a whole number", "queue_limit"),
        ({"memory": {"high_percent": 95}}, "pressure levels must rise", None),
        ({"memory": {"enabled": False}}, "the server reads it at its start", "memory.enabled"),
        ({"models": {"none": {}}}, "there is no such model; models: llm, asr", "models"),
        ({"models": {"llm": 1}}, "must be an object", "models"),
        ({"models": {"llm": {"context": 1}}}, "write it into the file, and reload", "llm.context"),
        ({"models": {"llm": {"keep_alive": "soon"}}}, "expected a duration", "keep_alive"),
        ({"models": {"llm": {"aliases": "x"}, "asr": {"when": ["chat", "sing"]}}}, "expected", "when"),
    ],
)
def test_a_wrong_patch_is_named_and_changes_nothing(body: Any, words: str, param: str | None) -> None:
    with managed() as (running, _):
        before = running.client.get("/admin/config").json()
        answer = patch(running, body)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert words in error["message"]
        assert error["param"] == param
        assert running.client.get("/admin/config").json() == before


def test_no_secret_is_shown() -> None:
    private = model(name="https://user:secret@example.org/m.gguf?token=secret")
    with managed({"llm": private}, server={"api_key": "secret"}) as (running, _):
        answer = httpx.get(f"{running.url}/admin/config", headers={"Authorization": "Bearer secret"})
        assert answer.json()["models"]["llm"]["model"] == "https://example.org/m.gguf"
        assert "secret" not in answer.text


# A model that was replaced on the disk


def test_a_model_that_was_replaced_on_the_disk_is_noticed_at_its_next_load(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(MARK + b"old" + MARK)
    with managed({"llm": model()}, files={"llm": file}) as (running, world):
        before = world.pool.gates["llm"]
        ask = lambda: running.client.post("/v1/chat", json={"prompt": "hello"}).status_code  # noqa: E731
        assert (ask(), world.made) == (200, ["llm"])
        (tmp_path / "new").write_bytes(MARK + b"new weights" + MARK)
        (tmp_path / "new").replace(file)
        assert (ask(), world.pool.gates["llm"]) == (200, before)  # hot: it computes with what it has
        assert running.client.post("/memory/evict/llm").status_code == 200
        with ThreadPoolExecutor(4) as many:
            assert set(many.map(lambda _: ask(), range(8))) == {200}
        assert world.pool.gates["llm"] is not before
        assert world.made == ["llm", "llm"]
