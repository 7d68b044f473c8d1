"""Changes that meet: a reload or a PATCH while a model is being opened anew, and removals beside requests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path

import httpx
import pytest
from support.gates import HeldAnswer
from support.managed import NOWHERE, World, managed, model
from support.server import until

from edgeserve.config import Config
from edgeserve.errors import NotConfigured
from edgeserve.manage import manager
from edgeserve.manage.manager import Manager, Means, idle_policy
from edgeserve.models.store import Store
from edgeserve.residency.directory import Terms
from edgeserve.residency.host import Host
from edgeserve.residency.monitor import Monitor
from edgeserve.residency.pool import Pool


class Renewing:
    """A manager that renews "llm" now, and reads the disk for it until ``go`` is set."""

    def __init__(self) -> None:
        settings = Config(models={"llm": model()})
        self.world, self.go = World(settings, Store(NOWHERE), {}), threading.Event()
        self.asked: list[Config] = []
        pool, reading = self.world.pool, threading.Event()
        self._reading = reading

        def make(config: Config, models: Iterable[str]) -> Mapping[str, tuple[Host, Terms]]:
            wanted = list(models)
            if wanted == ["llm"] and not self.go.is_set() and not reading.is_set():
                reading.set()
                assert self.go.wait(20)
            self.asked.append(config)
            return self.world.make(config, wanted)

        monitor = Monitor(lambda: pool.gates.values(), pool.governor, idle_policy(settings), pool.idle)
        self.manager = Manager(settings, pool, monitor, Means(self.world.store, make, self.world.read))

    def meets(self, change: Callable[[Manager], Awaitable[object]]) -> BaseException | None:
        """Let a change meet the renewal; returns the error of the renewal."""

        async def both() -> BaseException | None:
            renewal = asyncio.create_task(self.manager.renew("llm"))
            await asyncio.to_thread(self._reading.wait, 20)
            await change(self.manager)
            self.go.set()
            await asyncio.wait([renewal])
            error = renewal.exception()
            await self.world.pool.stop()
            await self.manager.stop()
            return error

        return asyncio.run(both())


def test_a_renewal_does_not_bring_back_a_model_that_a_reload_removed() -> None:
    one = Renewing()
    one.world.rewrite({})
    error = one.meets(lambda one: one.reload())
    assert isinstance(error, NotConfigured)
    assert dict(one.world.pool.gates) == {}
    assert list(one.world.pool.governor.accounts) == []


def test_a_renewal_serves_a_model_by_the_settings_of_a_reload_that_it_meets() -> None:
    one = Renewing()
    one.world.rewrite({"llm": model(options={"delay": 0.001}, aliases=("mine",))})
    assert one.meets(lambda one: one.reload()) is None
    assert one.world.pool.configured["llm"].options["delay"] == 0.001
    assert one.world.pool.directory.terms("llm").aliases == ("mine",)


def test_a_renewal_keeps_what_a_request_changed_meanwhile() -> None:
    one = Renewing()
    assert one.meets(lambda one: one.change({"models": {"llm": {"pinned": True}}})) is None
    assert one.manager.config.models["llm"].pinned
    assert one.world.pool.gates["llm"].pinned
    assert one.world.pool.directory.terms("llm").pinned


def test_an_engine_that_waited_for_its_place_is_served_as_a_request_said_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manager, "PATIENCE_SECONDS", 0.01)
    with managed({"llm": model(threads=1)}) as (running, world), HeldAnswer(world.pool.gates["llm"]) as held:
        body = {"prompt": "one two"}
        with httpx.stream("POST", f"{running.url}/v1/chat/stream", json=body, timeout=30) as answer:
            lines = answer.iter_lines()
            next(lines)
            world.rewrite({"llm": model()})
            assert httpx.post(f"{running.url}/admin/reload").json()["still_answering"] == ["llm"]
            changed = httpx.patch(f"{running.url}/admin/config", json={"models": {"llm": {"pinned": True}}})
            assert changed.json()["models"]["llm"]["pinned"]
            held.go.set()
            assert list(lines)
        until(lambda: not running.app.state.manager.moving)
        assert world.pool.gates["llm"].pinned
        assert world.pool.directory.terms("llm").pinned


def test_a_model_that_a_request_brings_back_during_its_removal_is_served_no_more(tmp_path: Path) -> None:
    file = tmp_path / "used" / "model.gguf"
    file.parent.mkdir()
    file.write_bytes(b"fake fake")
    empty, on_demand = Config(), Config(models={"used": model()})

    class Asked(Store):
        """A store that a request looks into just before a removal."""

        def folder(self, name: str) -> str:
            return name

        def remove(self, name: str) -> None:
            loop.call_soon_threadsafe(lambda: asked.set_result(pool.find(name, ("llm",))))
            assert waits.wait(20)
            file.unlink()

    world, waits = World(on_demand, Asked(tmp_path), {"used": file}), threading.Event()
    loop, asked = asyncio.new_event_loop(), Future[str | None]()
    asked.add_done_callback(lambda _: waits.set())
    pool = Pool([], world.pool.governor, on_demand=lambda name, jobs: world.make(on_demand, [name])[name])
    monitor = Monitor(lambda: pool.gates.values(), pool.governor, idle_policy(empty), pool.idle)
    found = Manager(empty, pool, monitor, Means(world.store, world.make, world.read))

    async def remove() -> None:
        await found.remove("used")
        await found.stop()

    with contextlib.closing(loop):
        loop.run_until_complete(remove())
    assert asked.result() == "used"
    assert dict(pool.gates) == {}


def test_a_change_is_checked_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    check = manager.patched

    def patched(config: Config, given: Mapping[str, object]) -> Config:
        threads.append(threading.current_thread())
        return check(config, given)

    monkeypatch.setattr(manager, "patched", patched)
    one = Renewing()
    assert one.meets(lambda one: one.change({"models": {"llm": {"pinned": True}}})) is None
    assert threads
    assert threading.main_thread() not in threads
