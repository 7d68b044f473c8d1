"""Engines that can do with less are asked to before any is moved down: at the gate, and through a whole server."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from support.cases import each
from support.contract import ask
from support.gates import CountingGovernor, Held, Mailbox, engine_of, fake_spec, gate_of, run
from support.server import serving, small_pool, until

from edgeserve.engine import Rung
from edgeserve.engines.fake.chat import FakePreparingChat
from edgeserve.errors import ContextOverflow, ContextReduced, DoesNotFit
from edgeserve.memory.terms import NEW, Terms
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
        def reserve(self, resident: Any, terms: Terms = NEW) -> Any:
            told.append(resident.shed("context", 1))
            return super().reserve(resident, terms)

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


class Reduced(FakePreparingChat):
    """Its way up beside other engines takes a context of 1 word in place of 3, until a request needs the whole one."""

    early = False
    limit, made = 1, 0

    def prepare(self, request: Any) -> str:
        if self.early and self.rung is Rung.HOT:
            self._check(request)
        return super().prepare(request)

    def run(self, request: Any, cancel: Any, prepared: object | None = None) -> Any:
        self._check(request)
        yield from super().run(request, cancel, prepared)

    def _check(self, request: Any) -> None:
        if (size := len(self._prompt(request).split())) > self.limit:
            raise ContextReduced(f"{size} words") if size <= 3 else ContextOverflow(f"{size} words")


class Wholes(CountingGovernor):
    """Counts the requests that need the whole context, and gives it where ``fits``."""

    def __init__(self, engine: Reduced, *, fits: bool = True) -> None:
        super().__init__()
        self.engine, self.fits, self.whole = engine, fits, 0

    def reserve(self, resident: Any, terms: Terms = NEW) -> Any:
        self.whole += terms.whole
        self.engine.limit = 3 if terms.whole and self.fits else self.engine.limit
        return super().reserve(resident, terms)

    def reserve_at_once(self, resident: Any, whole: bool = False) -> Any:
        return None if whole and self.engine.limit < 3 else super().reserve(resident)


@each("early", [False, True])
@each(
    ("text", "fits", "error"),
    [("one two three", True, None), ("one two three", False, DoesNotFit), ("a b c d", True, ContextOverflow)],
)
def test_a_prompt_that_a_reduced_context_cannot_hold_has_its_turn_with_the_whole_one(
    early: bool, text: str, fits: bool, error: type[Exception] | None
) -> None:
    """It was refused with 507 for as long as others used the engine and those beside it."""
    engine = Reduced(fake_spec("llm"))
    engine.early = early
    governor = Wholes(engine, fits=fits)
    with contextlib.ExitStack() as stack:
        gate = gate_of(engine, governor)
        stack.callback(gate.stop)
        assert run(gate, ask("word"))[1] is None
        held, other = Held(engine), Mailbox()
        gate.acquire()
        gate.submit(other.work(ask("one")))
        assert held.entered.wait(10)
        box = Mailbox()
        gate.acquire()
        gate.submit(box.work(ask(text)))
        held.go.set()
        assert other.rest()[1] is None
        assert isinstance(box.rest()[1], error or type(None))
        assert governor.whole == (len(text.split()) == 3)
        until(lambda: governor.released == governor.reserved)


def test_a_prompt_that_is_read_ahead_moves_no_engine_for_the_whole_context() -> None:
    engine = Reduced(fake_spec("llm"))
    governor = Wholes(engine)
    with contextlib.ExitStack() as stack:
        gate = gate_of(engine, governor)
        stack.callback(gate.stop)
        assert isinstance(run(gate, dataclasses.replace(ask("one two three"), ahead=True))[1], ContextReduced)
        assert governor.whole == 0
