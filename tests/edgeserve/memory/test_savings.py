"""Savings before eviction: prefix caches, and a smaller context."""

from __future__ import annotations

import contextlib

import pytest
from support.cases import each
from support.memory import FakeResident, ThriftyResident, World

from edgeserve.engine import Rung
from edgeserve.jobs import Job
from edgeserve.memory.terms import Terms
from edgeserve.units import MB


def test_a_prefix_cache_goes_before_any_engine_is_evicted() -> None:
    llm = ThriftyResident("llm", 0, 300)
    world = World(1000, llm, FakeResident("asr", 500, 100))
    world.heat("llm").cached = 200 * MB
    assert world.booked() == 500 * MB
    world.later(60)
    world.heat("asr")
    assert llm.shed_kinds == ["prefix_cache"]
    assert llm.rung is Rung.HOT
    assert llm.cached == 100 * MB, "no more than what is missing"
    assert world.booked() == 1000 * MB
    assert world.governor.evictions() == []


def test_the_context_shrinks_before_any_engine_is_evicted() -> None:
    llm = ThriftyResident("llm", 0, 700, context=300)
    world = World(1000, llm, FakeResident("asr", 400, 100))
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    assert llm.shed_kinds == ["context"]
    assert world.residents["asr"].rung is Rung.HOT
    assert world.booked() <= 1000 * MB
    assert llm.takes.private == pytest.approx(500 * MB, rel=0.01), "no smaller than it must be"


def test_a_context_that_was_cut_to_the_last_byte_is_cut_further_where_the_server_takes_more_meanwhile() -> None:
    """The first cut used the saving up, for this request alone. The busy engine in its way saw no reason to go."""
    llm = ThriftyResident("llm", 0, 700, context=300)
    world = World(1000, llm, FakeResident("asr", 400, 100))
    shed = llm.shed

    def grow(kind: str, amount: int) -> bool:
        world.probe.base = 5 * MB
        return shed(kind, amount)

    llm.shed = grow  # type: ignore[method-assign]
    answer = world.begin("asr")
    world.heat("llm")
    world.end(answer)
    assert llm.shed_kinds == ["context", "context"]
    assert not world.waits


def test_a_shrunk_context_is_restored_on_the_next_way_up_and_not_learned() -> None:
    llm = ThriftyResident("llm", 0, 700, context=300)
    world = World(1000, llm, FakeResident("asr", 400, 100))
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    assert world.peaks.find(llm.spec) is None
    world.later(60)
    for job in ("llm", "asr"):
        world.governor.step_down(world.residents[job], Rung.COLD, "requested")
    world.heat("llm")
    assert llm.takes.private == 700 * MB
    assert world.booked() == 700 * MB
    learned = world.peaks.find(llm.spec)
    assert learned is not None
    assert learned.private == 700 * MB


@each(("private", "shed"), [(800, []), (1000, ["context"])])
def test_savings_that_are_not_enough_are_followed_by_eviction(private: int, shed: list[str]) -> None:
    """Answers ended early in a smaller context, where the eviction alone was enough."""
    llm = ThriftyResident("llm", 0, private, context=200)
    world = World(1000, llm, FakeResident("asr", 400, 200))
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    assert llm.shed_kinds == shed
    assert world.residents["asr"].rung is Rung.WARM


def test_a_step_down_that_keeps_a_cache_expects_the_rest_back() -> None:
    llm = ThriftyResident("llm", 0, 300)
    world = World(1000, llm)
    world.heat("llm")
    llm.saves = 20 * MB
    world.later(60)
    record = world.governor.step_down(llm, Rung.WARM, "idle")
    assert record is not None
    assert record.expected == record.freed == 280 * MB
    assert world.booked() == 20 * MB


def beside_speech(job: Job = "asr", *, pinned: bool = False) -> tuple[World, ThriftyResident]:
    """A model that became hot with a smaller context beside another engine."""
    llm = ThriftyResident("llm", 0, 700, context=300)
    world = World(1000, llm, FakeResident(job, 400, 100, pinned=pinned))
    world.heat(job)
    world.later(60)
    assert world.heat("llm").takes.private < 700 * MB
    return world, llm


@each("optional", [0, 100])
def test_an_answer_that_goes_on_has_the_context_that_it_had(optional: int) -> None:
    """A list of texts for vectors rested; a smaller context would refuse what is left of it."""
    llm = ThriftyResident("llm", 0, 800, context=300, optional=optional)
    world = World(1000, llm, FakeResident("asr", 0, 400), FakeResident("tts", 0, 250, pinned=True))
    world.heat("tts")
    world.heat("llm")
    before = llm.takes
    assert before.private < 800 * MB
    world.governor.step_down(llm, Rung.WARM, "memory_needed")
    answer = world.begin("asr")

    def on_wait() -> None:
        if world.residents["asr"].leases:
            world.end(answer)

    world.on_wait = on_wait
    with world.governor.reserve(llm, Terms(resumed=True)) as reservation:
        llm.climb()
        world.governor.settle(reservation)
        assert world.waits, "it waits for the other's answer"
        assert llm.takes == before


@each("resumed", [False, True])
def test_a_request_that_needs_the_whole_context_gets_it_in_its_turn(resumed: bool) -> None:
    """Its prompt was refused for as long as others used the two engines, without an end."""
    world, llm = beside_speech()
    assert world.governor.reserve_at_once(llm, whole=True) is None
    reservation = world.governor.reserve(llm, Terms(whole=True, resumed=resumed))
    assert (llm.rung, world.residents["asr"].rung) == (Rung.WARM, Rung.WARM)
    llm.climb()
    world.governor.settle(reservation)
    world.governor.release(reservation)
    assert llm.takes.private == 700 * MB
    with world.governor.reserve_at_once(llm, whole=True) or pytest.fail("it is whole"):
        assert world.booked() <= 1000 * MB


def test_the_next_way_up_may_take_a_smaller_context_again() -> None:
    world, llm = beside_speech()
    world.governor.release(world.governor.reserve(llm, Terms(whole=True)))
    world.heat("asr")
    world.later(60)
    assert world.heat("llm").takes.private < 700 * MB


def test_a_whole_context_that_can_never_fit_leaves_the_engine_as_it_is() -> None:
    """Else one long prompt after the other would take the context from all."""
    world, llm = beside_speech(pinned=True)
    before = llm.takes
    with world.governor.reserve(llm, Terms(whole=True)):
        assert (llm.rung, llm.takes, world.waits) == (Rung.HOT, before, [])


def test_a_whole_context_waits_for_no_answer_that_does_not_rest() -> None:
    """The engine had stepped down for it, and answered nobody until a long answer had ended."""
    world, llm = beside_speech("vision")
    before = llm.takes
    with world.governor.reserve(world.residents["vision"]), world.governor.reserve(llm, Terms(whole=True)):
        assert (llm.rung, llm.takes, world.waits) == (Rung.HOT, before, [])


@each("job", ["asr", "tts", "embedding", "rerank", "speaker"])
def test_a_whole_context_takes_its_turn_behind_an_answer_that_rests(job: Job) -> None:
    """The prompt was refused where a speech of 0.2 s was under way at that moment."""
    world, llm = beside_speech(job)
    answer = world.begin(job)
    world.on_wait = lambda: world.end(answer) if world.residents[job].leases else None
    world.governor.release(world.governor.reserve(llm, Terms(whole=True)))
    assert (llm.takes.private, len(world.waits)) == (700 * MB, 1)


def test_a_whole_context_waits_for_the_answer_that_rests_where_that_is_enough() -> None:
    """The plan chose the engine whose answer had been under way for longer: the model was down until its end."""
    llm = ThriftyResident("llm", 0, 700, context=300)
    world = World(1000, llm, FakeResident("vision", 200, 100), FakeResident("asr", 200, 100))
    for name in ("asr", "vision", "llm"):
        world.heat(name)
    world.later(60)
    picture = world.begin("vision")
    world.later(60)
    sound = world.begin("asr")
    world.later(60)
    ways = []

    def on_wait() -> None:
        ways.extend(one.way for one in world.governor.accounts.tickets)
        world.end(sound)

    world.on_wait = on_wait
    world.governor.release(world.governor.reserve(llm, Terms(whole=True)))
    assert (llm.takes.private, ways) == (700 * MB, [{"asr"}])
    world.end(picture)


def test_a_whole_context_takes_the_memory_of_an_engine_whose_requests_only_wait() -> None:
    """Speech had its turn behind a transcription, and nothing was answered: four prompts were refused meanwhile."""
    world, llm = beside_speech()
    world.residents["asr"].leases = 1
    world.governor.release(world.governor.reserve(llm, Terms(whole=True)))
    assert (llm.takes.private, world.residents["asr"].rung) == (700 * MB, Rung.WARM)


def test_an_answer_at_rest_waits_for_the_whole_context_that_it_had() -> None:
    """It ended with the error of a prompt, because others had taken a smaller context and worked elsewhere."""
    world, llm = beside_speech()
    answer = world.begin("asr")
    world.on_wait = lambda: world.end(answer)
    world.governor.release(world.governor.reserve(llm, Terms(whole=True, resumed=True)))
    assert (llm.takes.private, len(world.waits)) == (700 * MB, 1)


def test_a_whole_context_waits_for_nothing_that_others_send() -> None:
    """A client that sends its body slowly could hold it for minutes."""
    llm = ThriftyResident("llm", 0, 700, context=300)
    world = World(1000, llm)
    world.governor.accounts.traffic.came = world.probe.base = 350 * MB
    before = world.heat("llm").takes
    assert before.private < 700 * MB
    with world.governor.reserve(llm, Terms(whole=True)):
        assert (llm.rung, llm.takes, world.waits) == (Rung.HOT, before, [])


@each("optional", ["reordered", "draft", "optional"])
def test_an_engine_without_optional_memory_has_its_whole_context(optional: str) -> None:
    """Each long prompt would have it step down again."""
    llm = ThriftyResident("llm", 0, 870, context=300, **{optional: 100})
    world = World(1000, llm, FakeResident("asr", 400, 100), FakeResident("tts", 100, 100, pinned=True))
    world.heat("tts")
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    for _ in range(2):
        with world.governor.reserve(llm, Terms(whole=True)):
            if llm.rung is not Rung.HOT:
                llm.climb()
    with world.governor.reserve_at_once(llm, whole=True) or pytest.fail("it is whole"):
        assert llm.rung is Rung.HOT


def ranking(*, pinned: bool = False) -> World:
    """A ranking model, and an engine that leaves it room for a smaller context alone."""
    rank = ThriftyResident("rerank", 0, 700, context=300)
    world = World(1000, rank, FakeResident("asr", 400, 100, pinned=pinned))
    world.heat("asr")
    world.later(60)
    return world


def test_a_model_that_reads_whole_texts_takes_no_smaller_context_for_an_idle_engine() -> None:
    """Documents were cut there without a word, and their relevance was another."""
    world = ranking()
    assert world.heat("rerank").takes.private == 700 * MB
    assert world.residents["asr"].rung is Rung.WARM


def test_a_model_that_reads_whole_texts_takes_no_smaller_context_for_one_at_work() -> None:
    world = ranking()
    answer = world.begin("asr")
    world.on_wait = lambda: world.end(answer) if world.residents["asr"].leases else None
    assert world.heat("rerank").takes.private == 700 * MB
    assert world.waits, "it waits for the other's answer"


def test_a_model_that_reads_whole_texts_takes_no_smaller_context_for_what_others_send() -> None:
    world = ranking()
    traffic = world.governor.accounts.traffic
    traffic.came = world.probe.base = 350 * MB
    world.later(60)

    def leave() -> None:
        traffic.came = world.probe.base = 0

    world.on_wait = leave
    assert world.heat("rerank").takes.private == 700 * MB
    assert world.waits


def test_a_model_that_reads_whole_texts_takes_no_smaller_context_for_an_engine_that_moves() -> None:
    """Its memory seemed to be the server's own."""
    world, ends = ranking(), contextlib.ExitStack()
    world.governor.accounts.note_overhead(world.probe.read())
    ends.enter_context(world.governor.accounts.moving())
    world.probe.base = 500 * MB

    def leave() -> None:
        world.probe.base = 0
        ends.close()

    world.on_wait = leave
    assert world.heat("rerank").takes.private == 700 * MB
    assert world.waits


def test_a_model_that_reads_whole_texts_does_with_less_where_all_of_it_never_fits() -> None:
    world = ranking(pinned=True)
    assert world.heat("rerank").takes.private == pytest.approx(500 * MB, rel=0.01)
    assert world.residents["asr"].rung is Rung.HOT
