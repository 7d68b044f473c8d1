"""A conversation with a real server goes on after an unload, a restart and a crash, in both kinds of host."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_end_to_end import Server

from edgeserve.models.store import Store

pytestmark = pytest.mark.models
STORY = "The lighthouse keeper wrote down every ship that passed, its flag, its cargo and the weather. " * 8
TALK = [{"role": "user", "content": STORY}]


class Device:
    """A server that can be started again. ``states``: its folder of saved conversations."""

    def __init__(self, config: Path, states: Path) -> None:
        self._config, self.states = config, states
        self.server = Server(config)

    def restart(self, number: signal.Signals) -> None:
        self.server.end(number)
        self.server = Server(self._config)

    def post(self, path: str, body: Any = None) -> httpx.Response:
        return httpx.post(f"{self.server.url}{path}", json=body, timeout=60)

    def cached(self, client: str = "mine") -> int:
        """Tokens of the prompt that were known."""
        body = {"messages": TALK, "max_tokens": 2, "temperature": 0, "prompt_cache_key": client}
        answer = self.post("/v1/chat/completions", body)
        assert answer.status_code == 200, answer.text
        tokens: int = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        return tokens

    def unload(self) -> None:
        assert self.post("/memory/evict/llm").status_code == 200


@pytest.fixture(params=["thread", "process"])
def device(
    request: pytest.FixtureRequest, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Device]:
    monkeypatch.setenv("EDGESERVE_STATES_DIR", str(tmp_path / "states"))
    model = store.pull("smollm2-135m-instruct").name
    path = tmp_path / "models.toml"
    path.write_text(f'[llm]\nmodel = "{model}"\nisolation = "{request.param}"\n')
    device = Device(path, tmp_path / "states")
    yield device
    code, _, errors = device.server.end()
    assert (code, "Traceback" in errors) == (0, False), errors


def test_a_conversation_goes_on_whatever_happens(device: Device) -> None:
    assert device.cached() == 0
    assert not list(device.states.rglob("*.state"))
    device.unload()
    [path] = device.states.rglob("*.state")
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, path)] == [0o700, 0o600]
    assert device.cached() > 150
    assert device.cached("somebody else's") == 0
    device.restart(signal.SIGTERM)
    assert device.cached() > 150
    saved = device.post("/slots/0?action=save", {"filename": "kept.bin", "prompt_cache_key": "mine"})
    assert saved.json()["n_saved"] > 150, saved.text
    device.restart(signal.SIGKILL)
    assert device.cached() > 150, "what an earlier end has saved outlasts a crash"
    for one in device.states.rglob("*.state"):
        os.truncate(one, one.stat().st_size // 2)
    device.restart(signal.SIGTERM)
    assert device.cached("somebody else's") == 0, "damaged files cost a new reading, and nothing else"
    restored = device.post("/slots/3?action=restore", {"filename": "kept.bin", "prompt_cache_key": "mine"})
    assert restored.json()["n_restored"] == saved.json()["n_saved"], restored.text
    assert device.post("/slots/2?action=restore", {"filename": "kept.bin"}).status_code == 404
    assert device.cached() > 150
