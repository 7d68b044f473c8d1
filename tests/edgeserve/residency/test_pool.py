"""The async side of a lease: events in order, errors at the right moment, nothing left running."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from support.contract import ask
from support.gates import FAKES, Clock, CountingGovernor, fake_spec
from support.pools import until, with_pool

from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import Busy, ContextOverflow, NotConfigured, ShuttingDown, SlowReader
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import Job
from edgeserve.messages import FinishEvent, SpeakRequest, TokenEvent
from edgeserve.residency import leaving
from edgeserve.residency.directory import Terms
from edgeserve.residency.host import LONG_PATIENCE, PATIENCE
from edgeserve.residency.mailbox import LARGEST
from edgeserve.residency.pool import Pool


async def collect(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]


def test_a_lease_ends_with_its_work_and_runs_once() -> None:
    async def test(pool: Pool) -> None:
        gate = pool.gates["llm"]
        async with await pool.lease("llm") as lease:
            assert gate.leases == 1
            assert await collect(lease.run(ask("one"))) == [TokenEvent("one"), FinishEvent("stop", 1, 1)]
            assert gate.leases == 0
            with pytest.raises(RuntimeError, match="once"):
                await collect(lease.run(ask("two")))

    with_pool(test, "llm")


def test_an_answer_that_is_not_read_holds_its_engine_no_longer_than_it_is_made() -> None:
    async def test(pool: Pool) -> None:
        gate = pool.gates["llm"]
        lease = await pool.lease("llm")
        events = lease.run(ask("one two three"))
        assert await anext(events) == TokenEvent("one")
        await until(lambda: gate.leases == 0)
        assert await pool.evict("llm"), "nobody holds it"
        assert [event.text for event in (await collect(events))[:-1]] == [" two", " three"]
        assert pool.deliveries.held == 0

    with_pool(test, "llm")


def test_speech_for_a_reader_that_waits_is_bounded_and_others_have_their_turn() -> None:
    async def test(pool: Pool) -> None:
        gate = pool.gates["tts"]
        slow = await pool.lease("tts")
        events = slow.run(SpeakRequest("one. " * 400))
        first = await anext(events)
        await until(lambda: gate.host.stuck)
        assert pool.deliveries.held <= LARGEST + len(first.pcm) + 1000
        assert not await pool.evict("tts"), "an answer under way keeps its engine"
        async with await pool.lease("tts") as other:
            assert len(await collect(other.run(SpeakRequest("hello.")))) == 1
        told = [first, *await collect(events)]
        assert len(told) == 400
        assert {event.pcm for event in told} == {first.pcm}
        await until(lambda: gate.leases == 0)
        assert pool.deliveries.held == 0

    with_pool(test, "tts")


def test_a_paused_answer_gives_its_place_to_others_after_a_while() -> None:
    async def test(pool: Pool) -> None:
        gate = pool.gates["tts"]
        slow = await pool.lease("tts")
        events = slow.run(SpeakRequest("one. " * 400))
        await anext(events)
        await until(lambda: gate.host.stuck)
        with pytest.raises(Busy):
            await pool.lease("tts")
        clock.now += PATIENCE
        async with await pool.lease("tts") as other:
            assert len(await collect(other.run(SpeakRequest("hello.")))) == 1
        with pytest.raises(SlowReader, match="waited 10 s for its reader"):
            await collect(events)

    clock = Clock()
    with_pool(test, "tts", queue_limit=0, clock=clock)


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
            await until(lambda: len(submitted) == 3)
            await events.aclose()
        await until(lambda: not gate.work)

    with_pool(test, "llm")


def test_one_of_several_requests_that_fails_ends_all() -> None:
    async def test(pool: Pool) -> None:
        async with await pool.lease("llm") as lease:
            with pytest.raises(ContextOverflow):
                await collect(lease.run_all([ask("a"), ask("far too many"), ask("b")]))

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
        await until(lambda: gate.leases == 0)
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
        await pool.ahead.start(preload=["tts"])
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


@pytest.mark.parametrize(("keep_alive", "told"), [(None, False), (0.0, True)])
def test_the_end_of_a_lease_with_a_keep_alive_is_told(keep_alive: float | None, told: bool) -> None:
    async def test(pool: Pool) -> None:
        async with await pool.lease("llm", keep_alive) as lease:
            await collect(lease.run(ask("one")))
        assert pool.idle.is_set() is told

    with_pool(test, "llm")


def test_voices_come_from_the_speech_engine() -> None:
    async def test(pool: Pool) -> None:
        assert pool.voices() == ("tone", "hum")

    with_pool(test, "tts")


def test_a_request_without_a_thread_ends_alone_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def test(pool: Pool) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            async with await pool.lease("llm") as lease:
                with pytest.raises(Busy, match="no thread"):
                    await collect(lease.run(ask("one")))
        assert (pool.gates["llm"].leases, pool.deliveries.held, pool.failing()) == (0, 0, [])
        async with await pool.lease("llm") as lease:
            assert len(await collect(lease.run(ask("one")))) == 2

    with_pool(test, "llm")


def spec_named(model: str, job: Job = "llm") -> ModelSpec:
    return dataclasses.replace(fake_spec(job), id=model, name=model)


def test_a_model_joins_while_others_answer_and_leaves_when_its_last_answer_has_ended() -> None:
    async def test(pool: Pool) -> None:
        governor: Any = CountingGovernor()
        gate = pool.add(ThreadHost(FAKES["llm"](spec_named("second")), governor), Terms(aliases=("two",)))
        assert pool.find("TWO", ("llm",)) == "second"
        lease = await pool.lease("second")
        going = asyncio.create_task(pool.remove("second"))
        await until(lambda: "second" not in pool.gates)
        assert pool.find("two", ("llm",)) is None
        assert await collect(lease.run(ask("one"))) == [TokenEvent("one"), FinishEvent("stop", 1, 1)]
        await going
        assert gate.rung is Rung.COLD
        with pytest.raises(NotConfigured, match="'second' is not served any more"):
            await pool.lease("second")
        assert await (await pool.lease("llm")).release() is None

    with_pool(test, "llm")


def test_a_model_that_leaves_is_drained_with_the_others() -> None:
    async def test(pool: Pool) -> None:
        lease = await pool.lease("llm")
        going = asyncio.create_task(pool.remove("llm"))
        await until(lambda: not pool.gates)
        await pool.drain(0.01)
        await lease.release()
        await going

    with_pool(test, "llm")


def test_a_model_is_made_when_it_is_named_for_the_first_time() -> None:
    asked: list[str] = []

    def on_demand(name: str, jobs: Sequence[Job]) -> tuple[ThreadHost, Terms] | None:
        asked.append(name)
        governor: Any = CountingGovernor()
        known = {"shelved": "second", "twin": "tts"}
        found = known.get(name)
        return (ThreadHost(FAKES["llm"](spec_named(found)), governor), Terms(stored=name)) if found else None

    async def test(pool: Pool) -> None:
        assert [pool.find("shelved", ("llm",)) for _ in range(2)] == ["second", "second"]
        assert pool.find("nobody", ("llm",)) is None
        assert pool.find("twin", ("llm",)) is None, "the id is taken by another job's model"
        assert pool.find("", ("asr",)) is None
        assert asked == ["shelved", "nobody", "twin"]

    with_pool(test, "llm", "tts", on_demand=on_demand)


def test_the_name_of_a_pulled_model_goes_before_a_pattern() -> None:
    def on_demand(name: str, jobs: Sequence[Job]) -> tuple[ThreadHost, Terms] | None:
        governor: Any = CountingGovernor()
        return (ThreadHost(FAKES["llm"](spec_named(name)), governor), Terms(stored=name)) if name == "gpt-oss" else None

    async def test(pool: Pool) -> None:
        assert [pool.find(name, ("llm",)) for name in ("gpt-4o", "gpt-oss", "GPT-5")] == ["llm", "gpt-oss", "llm"]

    with_pool(test, "llm", terms={"llm": Terms(aliases=("gpt-*",))}, on_demand=on_demand)


def test_a_model_keeps_its_own_keep_alive() -> None:
    async def test(pool: Pool) -> None:
        await (await pool.lease("llm", 3)).release()
        assert pool.gates["llm"].keep_alive == 3
        await (await pool.lease("llm")).release()
        assert pool.gates["llm"].keep_alive == 60

    with_pool(test, "llm", terms={"llm": Terms(keep_alive=60)})


def test_a_model_on_demand_does_not_come_back_before_it_has_left() -> None:
    def on_demand(name: str, jobs: Sequence[Job]) -> tuple[ThreadHost, Terms]:
        governor: Any = CountingGovernor()
        return ThreadHost(FAKES["llm"](spec_named(name)), governor), Terms(stored=name)

    async def test(pool: Pool) -> None:
        assert pool.find("second", ("llm",)) == "second"
        lease = await pool.lease("second")
        going = asyncio.create_task(pool.remove("second"))
        await until(lambda: "second" not in pool.gates)
        with pytest.raises(Busy, match="second ends its last answers"):
            pool.find("second", ("llm",))
        await lease.release()
        await going
        assert pool.find("second", ("llm",)) == "second"

    with_pool(test, "llm", on_demand=on_demand)


def test_an_engine_takes_the_place_of_another_when_its_answers_have_ended() -> None:
    async def test(pool: Pool) -> None:
        governor: Any = CountingGovernor()
        before, lease = pool.gates["llm"], await pool.lease("llm")
        new = ThreadHost(FAKES["llm"](spec_named("llm")), governor)
        replacing = asyncio.create_task(pool.replace(new, Terms(pinned=True)))
        await until(lambda: bool(pool.leaving))
        waiting = [asyncio.create_task(pool.lease("llm")) for _ in range(2)]
        assert await collect(lease.run(ask("one"))) == [TokenEvent("one"), FinishEvent("stop", 1, 1)]
        await replacing
        for each in waiting:
            await (await each).release()
        gate = pool.gates["llm"]
        assert (gate.host, gate.pinned, before.rung) == (new, True, Rung.COLD)

    with_pool(test, "llm")


def test_a_reader_that_does_not_read_keeps_no_engine_from_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(pool: Pool) -> None:
        governor: Any = CountingGovernor()
        slow, before = await pool.lease("tts"), pool.gates["tts"]
        events = slow.run(SpeakRequest("one. " * 400))
        await anext(events)
        await until(lambda: before.host.stuck)
        new = ThreadHost(FAKES["tts"](fake_spec("tts")), governor)
        replacing = asyncio.create_task(pool.replace(new, Terms()))
        await until(lambda: bool(pool.leaving))
        clock.now += LONG_PATIENCE
        await until(replacing.done)
        async with await pool.lease("tts") as other:
            assert len(await collect(other.run(SpeakRequest("hello.")))) == 1
        assert pool.deliveries.held < 1000, "what it has not read is gone, but for the error"
        with pytest.raises(SlowReader, match="waited 15 s for its reader while its model was replaced or removed"):
            await collect(events)

    clock = Clock()
    monkeypatch.setattr(leaving, "LOOK_SECONDS", 0.01)
    with_pool(test, "tts", clock=clock)


def test_a_replacement_ends_with_the_server() -> None:
    async def test(pool: Pool) -> None:
        governor: Any = CountingGovernor()
        lease = await pool.lease("llm")
        new = ThreadHost(FAKES["llm"](spec_named("llm")), governor)
        replacing = asyncio.create_task(pool.replace(new, Terms()))
        await until(lambda: bool(pool.leaving))
        waiting = asyncio.create_task(pool.lease("llm"))
        draining = asyncio.create_task(pool.drain(0.01))
        with pytest.raises(ShuttingDown):
            await waiting
        await lease.release()
        await draining
        with pytest.raises(ShuttingDown):
            await replacing
        assert pool.ending

    with_pool(test, "llm")


def test_terms_change_in_place_and_a_keep_alive_of_a_request_stays() -> None:
    async def test(pool: Pool) -> None:
        gate = pool.gates["llm"]
        pool.tune("llm", Terms(pinned=True, keep_alive=60, aliases=("gpt-*",)))
        assert (gate.pinned, gate.keep_alive, pool.find("gpt-9", ("llm",))) == (True, 60, "llm")
        await (await pool.lease("llm", 3)).release()
        pool.tune("llm", Terms())
        assert (gate.pinned, gate.keep_alive) == (False, 3)
        await (await pool.lease("llm")).release()
        assert gate.keep_alive is None
        assert pool.idle.is_set()

    with_pool(test, "llm")


def test_the_order_of_models_can_change() -> None:
    async def test(pool: Pool) -> None:
        governor: Any = CountingGovernor()
        for name in ("second", "third"):
            pool.add(ThreadHost(FAKES["llm"](spec_named(name)), governor), Terms())
        pool.arrange(("third", "gone", "second"))
        assert list(pool.gates) == ["third", "second", "llm"]
        await pool.remove("llm")
        assert pool.find("", ("llm",)) == "third"

    with_pool(test, "llm")


def test_the_pool_tells_of_each_request_before_it_takes_its_place() -> None:
    async def test(pool: Pool) -> None:
        told: list[int] = []
        pool.asked = lambda: told.append(pool.gates["llm"].leases)
        await pool.preload(["llm"])
        await (await pool.lease("llm")).release()
        assert told == [0, 0]

    with_pool(test, "llm")


def test_an_outdated_model_is_renewed_once_before_its_load() -> None:
    renewed: list[str] = []

    async def test(pool: Pool) -> None:
        async def renew(model: str) -> None:
            renewed.append(model)

        pool.renew = renew
        pool.gates["llm"].outdated = lambda: True  # type: ignore[method-assign]
        await (await pool.lease("llm")).release()
        assert renewed == ["llm"]
        await pool.preload(["llm"])
        assert renewed == ["llm", "llm"]
        await (await pool.lease("llm")).release()
        assert renewed == ["llm", "llm"], "a hot engine computes with what it has"

    with_pool(test, "llm")


@pytest.mark.parametrize("end", [lambda pool: pool.drain(0), lambda pool: pool.stop()], ids=["drain", "stop"])
def test_a_model_may_come_while_the_pool_ends(end: Callable[[Pool], Awaitable[None]]) -> None:
    """Requests for stored models, and reloads, add models until the last moment."""

    async def test(pool: Pool) -> None:
        ending = asyncio.ensure_future(end(pool))
        await asyncio.sleep(0)  # the first thing that has to end ends on a thread
        pool.add(ThreadHost(FAKES["asr"](fake_spec("asr")), pool.governor), Terms())
        await ending

    with_pool(test, "llm", "tts")
