"""The async side of a lease: events in order, errors at the right moment, nothing left running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from support.contract import ask
from support.gates import CountingGovernor, make_gate

from edgeserve.engine import Job, Rung
from edgeserve.errors import ContextOverflow, NotConfigured, ShuttingDown
from edgeserve.messages import FinishEvent, SpeakRequest, TokenEvent
from edgeserve.pool import Pool


def make_pool(*jobs: Job, **settings: Any) -> Pool:
    governor = CountingGovernor()
    return Pool([make_gate(job, governor, **settings) for job in jobs], governor)  # type: ignore[arg-type]


def with_pool(test: Callable[[Pool], Awaitable[None]], *jobs: Job, **settings: Any) -> None:
    async def run() -> None:
        pool = make_pool(*jobs, **settings)
        try:
            await test(pool)
        finally:
            await pool.stop()

    asyncio.run(run())


async def collect(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]


def test_a_lease_runs_requests_in_order_and_ends() -> None:
    async def test(pool: Pool) -> None:
        async with await pool.lease("llm") as lease:
            first = await collect(lease.run(ask("one")))
            second = await collect(lease.run(ask("two")))
            assert pool.gates["llm"].leases == 1
        assert first == [TokenEvent("one"), FinishEvent("stop", 1, 1)]
        assert second == [TokenEvent("two"), FinishEvent("stop", 1, 1)]
        assert pool.gates["llm"].leases == 0

    with_pool(test, "llm")


@pytest.mark.parametrize("apart", [False, True])
def test_several_requests_on_one_lease(apart: bool) -> None:
    async def test(pool: Pool) -> None:
        async with await pool.lease("llm") as lease:
            told = await collect(lease.run_all([ask("a b"), ask("c"), ask("d e")], apart=apart))
        for number, text in enumerate(("a b", "c", "d e")):
            own = [event for index, event in told if index == number]
            assert "".join(event.text for event in own[:-1]) == text
            assert isinstance(own[-1], FinishEvent)
        if apart:
            assert [index for index, _ in told] == sorted(index for index, _ in told)

    with_pool(test, "llm")


def test_the_first_of_several_requests_goes_ahead() -> None:
    async def test(pool: Pool) -> None:
        gate = pool.gates["llm"]
        submitted = []
        submit = gate.submit
        gate.submit = lambda work: (submitted.append(work), submit(work))  # type: ignore[assignment,func-returns-value]
        async with await pool.lease("llm") as lease:
            events = lease.run_all([ask("a b"), ask("c d"), ask("e f")])
            assert await anext(events) == (0, TokenEvent("a"))
            assert len(submitted) == 3
            await events.aclose()
        assert all(work.cancel.is_set() for work in submitted)

    with_pool(test, "llm")


def test_one_of_several_requests_that_fails_ends_all() -> None:
    async def test(pool: Pool) -> None:
        async with await pool.lease("llm") as lease:
            with pytest.raises(ContextOverflow):
                await collect(lease.run_all([ask("a"), ask("far too many"), ask("b")]))
            assert (await collect(lease.run(ask("c"))))[0] == TokenEvent("c")

    with_pool(test, "llm", options={"context": 2})


def test_an_engine_that_is_not_listed_names_the_lines_that_add_it() -> None:
    async def test(pool: Pool) -> None:
        with pytest.raises(NotConfigured, match=r'\[tts\]\nmodel = "hibari"'):
            await pool.lease("tts")

    with_pool(test, "llm")


def test_an_error_in_the_prefill_comes_with_the_first_event() -> None:
    async def test(pool: Pool) -> None:
        async with await pool.lease("llm") as lease:
            with pytest.raises(ContextOverflow):
                await anext(lease.run(ask("far too many words")))

    with_pool(test, "llm", options={"context": 2})


def test_releasing_early_cancels_the_run_and_frees_the_engine() -> None:
    async def test(pool: Pool) -> None:
        lease = await pool.lease("llm")
        events = lease.run(ask(" ".join(["word"] * 10_000)))
        assert await anext(events) == TokenEvent("word")
        await lease.release()
        await lease.release()
        await events.aclose()  # type: ignore[attr-defined]
        gate = pool.gates["llm"]
        assert gate.leases == 0
        async with await pool.lease("llm") as other:
            assert await collect(other.run(ask("next"))) == [TokenEvent("next"), FinishEvent("stop", 1, 1)]

    with_pool(test, "llm", options={"delay": 0.001, "context": 100_000})


def test_one_engine_does_not_wait_for_another() -> None:
    async def test(pool: Pool) -> None:
        llm, tts = await pool.lease("llm"), await pool.lease("tts")
        chat = llm.run(ask(" ".join(["word"] * 500)))
        await anext(chat)
        assert await collect(tts.run(SpeakRequest("hello.")))
        await llm.release()
        await tts.release()
        await chat.aclose()  # type: ignore[attr-defined]

    with_pool(test, "llm", "tts", options={"delay": 0.01})


def test_start_maps_what_is_mapped_and_preloads_what_is_asked() -> None:
    async def test(pool: Pool) -> None:
        await pool.start(preload=["tts"])
        assert {job: pool.rung(job) for job in pool.configured} == {
            "llm": Rung.WARM,
            "vision": Rung.WARM,
            "asr": Rung.COLD,
            "tts": Rung.HOT,
        }

    with_pool(test, "llm", "vision", "asr", "tts")


def test_evict_and_preload_by_hand() -> None:
    async def test(pool: Pool) -> None:
        assert await pool.preload(["asr"]) == {"asr": True}
        lease = await pool.lease("asr")
        assert not await pool.evict("asr")
        await lease.release()
        assert await pool.evict("asr")
        assert pool.rung("asr") is Rung.COLD

    with_pool(test, "asr")


def test_draining_tells_those_who_need_longer() -> None:
    async def test(pool: Pool) -> None:
        async with await pool.lease("llm") as lease:
            events = lease.run(ask(" ".join(["word"] * 1000)))
            await anext(events)
            drain = asyncio.create_task(pool.drain(0.0))
            with pytest.raises(ShuttingDown, match="drain time of 0 s"):
                await collect(events)
            await drain
        with pytest.raises(ShuttingDown):
            await pool.lease("llm")

    with_pool(test, "llm", options={"delay": 0.01})


def test_voices_come_from_the_speech_engine() -> None:
    async def test(pool: Pool) -> None:
        assert pool.voices() == ("tone", "hum")

    with_pool(test, "tts")
