"""Engines that can do with less are asked to before any is moved down: at the gate, and through a whole server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.contract import ask
from support.gates import CountingGovernor, Held, Mailbox, engine_of, run
from support.server import serving, small_pool, until

from edgeserve.engine import Rung
from edgeserve.residency.gate import Gate
from edgeserve.units import MB


def test_an_idle_engine_saves_what_it_can_do_without(gates: Callable[..., Gate]) -> None:
    gate = gates(options={"prefix_cache_mb": 3})
    run(gate, ask("word"))
    assert gate.savings() == {"prefix_cache": 3 << 20}
    until(lambda: gate.shed("prefix_cache", 3 << 20))  # the answer's work ends a moment after the answer
    assert gate.savings() == {"prefix_cache": 0}
    assert gate.rung is Rung.HOT


def test_an_engine_without_savings_sheds_nothing(gates: Callable[..., Gate]) -> None:
    gate = gates("tts")
    assert gate.savings() == {}
    assert not gate.shed("prefix_cache", 3 << 20)


def test_an_engine_at_work_is_not_asked_to_save(gates: Callable[..., Gate]) -> None:
    """Leased, or with the client gone and its work not yet at its end."""
    gate = gates(options={"prefix_cache_mb": 3})
    held = Held(engine_of(gate))
    box = Mailbox()
    gate.acquire()
    gate.submit(box.work(ask("word")))
    assert held.entered.wait(10)
    assert not gate.shed("prefix_cache", 3 << 20)
    gate.release()
    assert not gate.shed("prefix_cache", 3 << 20)
    held.go.set()
    box.rest()
    assert engine_of(gate).steps == ["open", "heat"]


def test_a_request_may_make_room_in_its_own_engine(gates: Callable[..., Gate]) -> None:
    """The governor asks while the gate reserves: its worker holds the lock, and a lease is out."""

    class Saving(CountingGovernor):
        def reserve(self, resident: Any, cancel: Any = None, arrived: float | None = None) -> Any:
            told.append(resident.shed("context", 1))
            return super().reserve(resident, cancel, arrived)

    told: list[bool] = []
    gate = gates(governor=Saving())
    assert run(gate, ask("word"))[1] is None
    assert told == [True]
    assert engine_of(gate).steps == ["shed context", "open", "heat"]


@pytest.mark.parametrize("cache_mb", [300, 0])
def test_an_idle_prefix_cache_goes_before_any_engine_does(cache_mb: int) -> None:
    """Chat and speech fit together in 1000 MB, but not with 300 MB of cached prefixes."""
    chat, speech = {"private_mb": 200.0, "prefix_cache_mb": cache_mb}, {"private_mb": 500.0}
    with serving(small_pool(1000, {"llm": chat, "tts": speech})) as running:
        assert running.client.post("/v1/chat", json={"prompt": "hello"}).status_code == 200
        llm = running.pool.gates["llm"]
        assert llm.savings() == {"prefix_cache": cache_mb * MB}
        assert running.client.post("/v1/tts/synthesize", json={"text": "hello"}).status_code == 200
        assert llm.rung is Rung.HOT
        assert llm.savings()["prefix_cache"] <= 100 * MB
        assert ("shed prefix_cache" in engine_of(llm).steps) is bool(cache_mb)
        assert running.client.get("/memory/evictions").json() == []
        # 100 each are mapped.
        kept = llm.savings()["prefix_cache"]
        assert running.pool.governor.accounts.booked().host == (200 + 500 + 2 * 100) * MB + kept
