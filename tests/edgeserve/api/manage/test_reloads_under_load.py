"""Many reloads while many clients ask: every answer is whole, or refused in words; nothing is left behind."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from support.managed import managed, model
from support.server import Running, until

from edgeserve.manage import manager

pytestmark = pytest.mark.slow

NAMES = ("one", "two", "three", "four")
REFUSALS = {404: {"model_not_found", "engine_not_configured"}, 503: {"queue_full"}}
"""Words for a model that is not there, that leaves while the request is read, or that many wait for."""
RELOADS, CLIENTS = 40, 8


def settings(dice: random.Random) -> dict[str, Any]:
    """Some of the models, in any order, some with other keys."""
    chosen = dice.sample(NAMES, dice.randint(1, len(NAMES)))
    return {
        name: model(threads=dice.randint(0, 1), pinned=dice.random() < 0.3, options={"delay": 0.001}) for name in chosen
    }


def asks(running: Running, dice: random.Random, over: threading.Event) -> Counter[int]:
    """Ask until it is over; returns the statuses."""
    seen: Counter[int] = Counter()
    with httpx.Client(base_url=running.url, timeout=30) as client:
        while not over.is_set():
            prompt = " ".join(dice.choices(["red", "green", "blue"], k=dice.randint(1, 12)))
            answer = client.post("/v1/chat", json={"model": dice.choice(NAMES), "prompt": prompt})
            seen[answer.status_code] += 1
            if answer.status_code == 200:
                assert answer.json() == {"text": prompt}
            else:
                assert answer.json()["error"]["code"] in REFUSALS[answer.status_code], answer.text
    return seen


@pytest.mark.parametrize("seed", [1, 2])
def test_reloads_under_load(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "PATIENCE_SECONDS", 0.01)
    dice, over = random.Random(seed), threading.Event()
    with managed({name: model(options={"delay": 0.001}) for name in NAMES}) as (running, world):
        with ThreadPoolExecutor(CLIENTS) as clients:
            done = [clients.submit(asks, running, random.Random(seed * 100 + n), over) for n in range(CLIENTS)]
            for _ in range(RELOADS):
                world.rewrite(settings(dice))
                running.client.post("/admin/reload").raise_for_status()
            over.set()
            seen = sum((one.result() for one in done), Counter[int]())
        until(lambda: not running.app.state.manager.moving)
        assert seen[200] > 2 * RELOADS
        assert world.pool.leaving == ()
        assert set(world.pool.gates) == set(running.app.state.manager.config.models)
        assert list(world.pool.gates) == list(running.app.state.manager.config.models)
        residents = {entry.resident.id: entry.resident for entry in world.pool.governor.accounts}
        assert residents == dict(world.pool.gates)
        assert {spec.id for spec in world.pool.directory.of(["llm"])} == set(world.pool.gates)
