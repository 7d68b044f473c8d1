"""Remains of requests that have ended keep no others out."""

from __future__ import annotations

import dataclasses

import pytest
from support.cases import each
from support.memory import POLICY, FakeResident, World

from edgeserve.engine import Rung
from edgeserve.errors import DoesNotFit
from edgeserve.memory.traffic import Own, own
from edgeserve.units import MB


def beside(left: int = 0, pid: int | None = None) -> World:
    """A transcription needs 220 MB of 269, once an idle voice has gone, whose requests left so many MB."""
    world = World(300, FakeResident("asr", 0, 100, 100), FakeResident("tts", 0, 40))
    world.probe.base = 20 * MB
    world.residents["asr"].pid, world.residents["tts"].pid = pid and pid + 1, pid
    world.heat("asr")
    world.heat("tts").left = left
    return world


@each("pid", [None, 7])
def test_an_idle_engine_makes_room_whatever_its_requests_left(pid: int | None) -> None:
    """It took more than its account, which seemed to be the server's own: transcriptions beside it were refused 507."""
    world = beside(left=60, pid=pid)
    assert world.heat("asr").rung is Rung.HOT
    assert world.residents["tts"].rung < Rung.HOT
    assert (world.residents["asr"].opened, world.waits) == (1, [])


def test_the_own_process_of_an_engine_is_a_part_of_what_it_can_give() -> None:
    world = beside(left=60, pid=7)
    world.probe.others = 60 * MB
    with pytest.raises(DoesNotFit, match="and 100 MB more are evictable"):
        world.heat("asr")


def test_free_pages_of_the_heap_keep_no_request_out() -> None:
    world = beside()
    world.probe.base, world.free_heap = 80 * MB, 60 * MB
    world.heat("asr")
    assert (world.trims, world.residents["asr"].opened) == (1, 1)
    assert world.waits == []


def test_a_second_request_waits_for_the_next_return_of_free_pages() -> None:
    """Each return stops all other code for a moment, so that clients must not cause more of them."""
    world = beside()
    for again in range(2):
        world.probe.base, world.free_heap = 80 * MB, 60 * MB
        world.heat("asr")
        assert (world.trims, sum(world.waits)) == (1 + again, again)


def test_what_requests_left_in_their_own_engine_goes_with_a_step_down() -> None:
    world = beside(pid=7)
    world.residents["asr"].left = 60
    world.heat("asr")
    assert world.residents["asr"].opened == 2


def test_what_an_answer_left_in_its_own_engine_goes_beside_others_at_work() -> None:
    """An answer that had rested for others was refused with 507 when it was to go on beside them."""
    world = beside(pid=7)
    world.begin("tts")
    world.residents["asr"].left = 60
    assert world.heat("asr").opened == 2
    assert (world.residents["tts"].rung, world.waits) == (Rung.HOT, [])


def test_nothing_steps_down_for_a_request_that_needs_more_than_was_left() -> None:
    world = beside(left=10, pid=7)
    world.residents["asr"].left = 10
    world.probe.others, world.free_heap, world.probe.base = 120 * MB, 5 * MB, 25 * MB
    with pytest.raises(DoesNotFit):
        world.heat("asr")
    assert (world.residents["tts"].rung, world.trims, world.waits) == (Rung.HOT, 0, [])


def test_a_request_of_another_engine_at_work_is_waited_for() -> None:
    """The bytes that it takes beyond its booking go with its end."""
    world = beside(left=60)
    answer = world.begin("tts")
    world.on_wait = lambda: world.end(answer)
    assert world.heat("asr").rung is Rung.HOT
    assert len(world.waits) == 1


@each(("pid", "known"), [(7, 20), (None, 80)])
def test_the_servers_own_bytes_are_known_beside_answers_in_processes(pid: int | None, known: int) -> None:
    """Free pages that had returned since kept a transcription waiting for as long as others spoke."""
    world = beside(pid=pid)
    accounts = world.governor.accounts
    world.probe.base = 80 * MB
    accounts.note_overhead(world.probe.read())
    with world.governor.reserve(world.residents["tts"]):
        world.probe.base = 20 * MB
        accounts.note_overhead(world.probe.read())
        assert accounts.base() == known * MB


def test_files_of_others_on_their_way_do_not_hide_what_was_left() -> None:
    """A transcription waited 30 s beside an upload, and was answered 503."""
    policy = dataclasses.replace(POLICY, max_percent=0.9)
    world = World(300, FakeResident("asr", 0, 100, 100), FakeResident("tts", 0, 40), policy=policy)
    world.probe.base = 34 * MB
    world.heat("tts")
    upload = 13 * MB
    world.governor.accounts.traffic.come(upload)
    world.free_heap = 20 * MB
    world.probe.base += upload + world.free_heap
    assert world.heat("asr").rung is Rung.HOT
    assert (world.trims, world.waits) == (1, [])


def test_the_body_of_a_request_is_no_remains() -> None:
    """Engines of others stepped down for a body that has no room."""
    world, body = beside(pid=7), 80 * MB
    token = own.set(Own(lambda: body))
    world.governor.accounts.traffic.come(body)
    world.probe.base += body
    try:
        with pytest.raises(DoesNotFit):
            world.heat("asr")
    finally:
        own.reset(token)
    assert (world.residents["tts"].rung, world.trims) == (Rung.HOT, 0)


def test_engines_step_down_once_for_what_does_not_go() -> None:
    """The server has grown. A client that asked again and again for a model without room kept all others cold."""
    world = World(300, FakeResident("asr", 0, 140, 100), FakeResident("tts", 0, 40))
    world.probe.base = 20 * MB
    world.heat("tts")
    world.probe.base = 40 * MB
    for _ in range(3):
        if world.residents["tts"].rung is Rung.COLD:
            world.heat("tts")
        world.later(2.0)
        with pytest.raises(DoesNotFit):
            world.heat("asr")
    assert world.residents["tts"].opened == 2


def test_a_slow_return_of_free_pages_is_not_repeated_for_one_request() -> None:
    world = World(300, FakeResident("asr", 0, 140, 100))
    world.probe.base = 20 * MB
    world.governor.accounts.note_overhead(world.probe.read())
    world.probe.base = 40 * MB
    world.on_trim = lambda: world.later(1.1)
    with pytest.raises(DoesNotFit):
        world.heat("asr")
    assert world.trims == 1


def test_a_model_is_not_promised_the_room_that_its_own_process_has() -> None:
    """Its layers are laid out by this room: those of a split, beside a worker of 5 MB more, were refused 507."""
    world = beside(pid=7)
    free = world.governor.room(world.residents["asr"].spec)
    world.residents["asr"].left = 5
    assert world.governor.room(world.residents["asr"].spec) == free - 5 * MB


def answer_on(world: World) -> None:
    """Another answer of the voice begins before each one ends, as long as any may begin. Time passes."""
    tts = world.residents["tts"]
    answers = [world.begin("tts")]

    def on_wait() -> None:
        assert len(world.waits) < 100, "it waits for ever"
        if answers:
            following = world.governor.reserve_at_once(tts)
            tts.leases += following is not None
            world.end(answers.pop())
            answers.extend([following] if following else [])

    world.on_wait = on_wait


@each(("body", "grown"), [(0, 70), (40, 30)])
def test_a_request_does_not_wait_for_ever_for_what_is_the_servers_own(body: int, grown: int) -> None:
    """The server has grown. Beside others' answers without a gap, its engine answered nobody, and without an end."""
    world = beside(pid=7)
    answer_on(world)
    world.probe.base += (body + grown) * MB
    world.governor.accounts.traffic.come(body * MB)
    token = own.set(Own(lambda: body * MB))
    try:
        with pytest.raises(DoesNotFit):
            world.heat("asr")
    finally:
        own.reset(token)
    assert sum(world.waits) < 2 * POLICY.min_hot_seconds
    waited = len(world.waits)
    if body:
        world.governor.accounts.traffic.go(body * MB)
        world.probe.base -= body * MB
        assert world.heat("asr").rung is Rung.HOT, "it fits without the body"
    else:
        with pytest.raises(DoesNotFit):
            world.heat("asr")
    assert len(world.waits) == waited, "known by now"


def test_an_engine_in_the_serving_process_gives_back_what_it_took_beyond_its_account() -> None:
    """A transcription waited 67 s beside chats of 17 s, to their end: no step down of the chat model seemed enough."""
    world = beside(left=60)
    answer_on(world)
    assert world.heat("asr").rung is Rung.HOT
    assert sum(world.waits) < 2 * POLICY.min_hot_seconds


@each("pinned", [False, True])
def test_engines_go_up_again_when_files_of_others_are_missing_behind_the_moment_without_answers(pinned: bool) -> None:
    """A transcription waited for another client's upload. It kept all engines cold meanwhile, for 30 s and more."""
    world = World(300, FakeResident("asr", 0, 100, 100), FakeResident("tts", 0, 40), FakeResident("llm", pinned=pinned))
    world.probe.base = 20 * MB
    world.residents["asr"].pid, world.residents["tts"].pid = 8, 7
    world.governor.accounts.note_overhead(world.probe.read())
    world.heat("llm")
    world.heat("tts")
    answers = [world.begin("tts"), world.begin("llm")]
    upload = 30 * MB
    world.governor.accounts.traffic.come(upload)
    world.probe.base += upload + 20 * MB

    def on_wait() -> None:
        assert len(world.waits) < 20, "the voice is kept cold"
        if len(answers) > pinned:  # the pinned model goes on
            world.end(answers.pop(0))
        elif (found := world.governor.reserve_if_free(world.residents["tts"])) is not None:
            world.governor.release(found)
            world.governor.accounts.traffic.go(upload)
            world.probe.base -= upload

    world.on_wait = on_wait
    assert world.heat("asr").rung is Rung.HOT
