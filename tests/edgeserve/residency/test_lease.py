"""Leases count what their answers cost, however these end."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.contract import ask
from support.gates import Held, engine_of
from support.server import fake_pool, until

from edgeserve.engines.fake.chat import FakePreparingChat
from edgeserve.errors import Busy, Cancelled, EdgeserveError
from edgeserve.figures.account import Account, current
from edgeserve.messages import Request, SpeakRequest, TextRequest
from edgeserve.residency.pool import Pool
from edgeserve.residency.work import LONG_MESSAGES

MODEL = ("llm", "llm")


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = fake_pool(["llm", "tts"], queue_limit=0)
    yield pool
    asyncio.run(pool.stop())


async def answer(pool: Pool, *requests: Request, model: str = "llm") -> None:
    async with await pool.lease(model) as lease:
        async for _ in lease.run_all(requests):
            pass


def counted(pool: Pool, name: str) -> dict[Any, float]:
    return dict(pool.figures.counters[name])


def test_each_request_of_a_lease_is_an_answer(pool: Pool) -> None:
    account = Account()
    current.set(account)
    try:
        asyncio.run(answer(pool, ask("one two"), ask("three")))
    finally:
        current.set(None)
    assert sum(counted(pool, "answers_total").values()) == 2
    assert counted(pool, "generation_tokens_total") == {MODEL: account.completion_tokens}
    assert account.completion_tokens > 0
    assert account.queue is not None
    assert account.about == {"engine": "llm", "model": "llm"}


def test_speech_is_counted_in_seconds(pool: Pool) -> None:
    asyncio.run(answer(pool, SpeakRequest("One. Two."), model="tts"))
    assert counted(pool, "audio_seconds_total")["tts", "tts", "spoken"] > 0


def test_a_reader_that_sees_the_end_finds_it_counted(pool: Pool) -> None:
    async def ask_often() -> None:
        for number in range(50):
            await answer(pool, ask("word"))
            assert sum(counted(pool, "answers_total").values()) == number + 1

    asyncio.run(ask_often())


def test_requests_that_make_no_model_compute_are_no_answers(pool: Pool) -> None:
    asyncio.run(answer(pool, TextRequest(text="hello")))
    assert counted(pool, "answers_total") == {}


def test_a_client_that_goes_and_one_without_a_place(pool: Pool) -> None:
    held = Held(engine_of(pool.gates["llm"]))

    async def go() -> EdgeserveError | None:
        lease = await pool.lease("llm")
        reading = asyncio.ensure_future(anext(lease.run_all([ask("word")])))
        await asyncio.to_thread(held.entered.wait, 10)
        with pytest.raises(Busy):
            await pool.lease("llm")
        await lease.release()
        held.go.set()
        return (await asyncio.gather(reading, return_exceptions=True))[0]  # type: ignore[return-value]

    assert isinstance(asyncio.run(go()), Cancelled)
    until(lambda: counted(pool, "answers_total") == {(*MODEL, "cancelled"): 1})
    assert counted(pool, "refusals_total") == {(*MODEL, "queue"): 1}


def test_work_between_two_of_a_lease_that_gets_no_thread_ends_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader waited for ever, and the places of the works behind it were lost."""
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name.endswith("-read"):
            raise RuntimeError("can't start new thread")
        start(self)

    short = ask("word")
    long = dataclasses.replace(short, messages=short.messages * (LONG_MESSAGES + 1))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    pool = fake_pool(["llm"], fakes={"llm": FakePreparingChat})

    async def go(apart: bool) -> None:
        async with asyncio.timeout(10), await pool.lease("llm") as lease:
            async for _ in lease.run_all([short, long, long, long], apart=apart):
                pass

    for apart in (True, False):
        with pytest.raises(Busy, match="no thread can be started"):
            asyncio.run(go(apart))
        until(lambda: (pool.gates["llm"].leases, pool.gates["llm"].work, pool.deliveries.held) == (0, (), 0))
    asyncio.run(pool.stop())
