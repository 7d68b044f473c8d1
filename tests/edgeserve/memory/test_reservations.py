"""Measured ways up: what a client sends meanwhile is no memory of the engine."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples
from support.memory import FakeResident, World

from edgeserve.engine import Footprint, Rung
from edgeserve.units import MB

EXPECTED, GROWN = 160, 224
NOISE = EXPECTED // 16


def climbed(came: int, gone: int, during: int, *, in_process: bool) -> tuple[World, FakeResident]:
    """An engine that has measured ``GROWN`` MB. Bytes of requests: here and gone before, and here during its way up."""
    llm = FakeResident("llm", 0, EXPECTED)
    llm.in_process = in_process
    world = World(2000, llm)
    traffic = world.governor.accounts.traffic
    traffic.came, traffic.gone = came, gone
    reservation = world.governor.reserve(llm)
    traffic.came += during
    llm.takes = dataclasses.replace(llm.takes, private=GROWN * MB)
    llm.climb()
    traffic.gone = traffic.came  # free again before the engine is measured, or as it is
    world.governor.settle(reservation)
    world.governor.release(reservation)
    return world, llm


@examples(100)
@given(st.integers(0, 40 * MB), st.integers(0, 40 * MB), st.integers(0, 40 * MB), st.booleans())
def test_no_client_raises_a_learned_peak_by_its_requests(gone: int, held: int, during: int, in_process: bool) -> None:
    """Uploads during a way up were learned as the engine's memory, for ever: 200 MB became 236, measured."""
    world, llm = climbed(gone + held, gone, during, in_process=in_process)
    exact = held + during <= NOISE * MB or not in_process
    assert world.peaks.find(llm.spec) == (Footprint(private=GROWN * MB) if exact else None)
    assert world.booked() == (GROWN if exact else EXPECTED) * MB


@each(("during", "in_process", "exact"), [(64, True, False), (2, True, False), (1, True, True), (64, False, True)])
def test_requests_beside_an_opening_ahead_of_a_reservation_are_not_learned(
    during: int, in_process: bool, exact: bool
) -> None:
    """A request for a cold engine opens it beside the answers of others, before it has a reservation."""
    llm = FakeResident("llm", 0, EXPECTED)
    llm.in_process = in_process
    world = World(2000, llm)
    traffic = world.governor.accounts.traffic
    with world.governor.opening(llm.spec):
        traffic.came += during * MB
        llm.takes = dataclasses.replace(llm.takes, private=GROWN * MB)
        llm.rung = Rung.WARM
        traffic.gone = traffic.came
    world.heat("llm")
    assert world.peaks.find(llm.spec) == (Footprint(private=GROWN * MB) if exact else None)
    world.governor.step_down(llm, Rung.COLD, "idle")
    with world.governor.opening(llm.spec):
        llm.rung = Rung.WARM
    world.heat("llm")
    assert world.peaks.find(llm.spec) == Footprint(private=GROWN * MB), "alone"


@each("seconds", [0.0, 31.0, 3600.0])
def test_the_next_way_up_alone_is_measured(seconds: float) -> None:
    world, llm = climbed(0, 0, 64 * MB, in_process=True)
    world.clock.now += seconds
    world.heat("llm")
    assert world.peaks.find(llm.spec) is None, "hot all the time: the figure is still that of the way up"
    world.governor.step_down(llm, Rung.COLD, "idle")
    llm.takes = dataclasses.replace(llm.takes, private=170 * MB)
    world.heat("llm")
    assert world.peaks.find(llm.spec) == Footprint(private=170 * MB)


def test_a_figure_that_a_warm_engine_keeps_is_not_learned_later() -> None:
    """Speech and transcription measure themselves as they open: the next way up from warm learned the upload."""
    world, llm = climbed(0, 0, 64 * MB, in_process=True)
    world.governor.step_down(llm, Rung.WARM, "idle")
    world.heat("llm")
    assert world.peaks.find(llm.spec) is None
    world.governor.step_down(llm, Rung.COLD, "idle")
    llm.takes = dataclasses.replace(llm.takes, private=170 * MB)
    for rung in (Rung.WARM, Rung.COLD):
        world.heat("llm")
        assert world.peaks.find(llm.spec) == Footprint(private=170 * MB)
        world.governor.step_down(llm, rung, "idle")


def test_a_way_up_that_was_measured_with_other_work_is_not_learned() -> None:
    """A worker measures itself, so that the server's own traffic says nothing of it."""
    llm = FakeResident("llm", 0, EXPECTED, takes=GROWN)
    llm.in_process = False
    world = World(2000, llm)
    whole, llm.takes = llm.takes, dataclasses.replace(llm.takes, exact=False)
    world.heat("llm")
    entry = world.governor.accounts["llm"]
    assert (world.peaks.find(llm.spec), world.booked()) == (None, EXPECTED * MB)
    llm.takes, entry.measured_at = whole, -100.0
    world.heat("llm")
    assert world.peaks.find(llm.spec) is None, "the same way up"
    world.governor.step_down(llm, Rung.COLD, "idle")
    world.heat("llm")
    assert world.peaks.find(llm.spec) == Footprint(private=GROWN * MB)


@each(("bodies", "answers"), [(120, 0), (0, 120), (900, 0), (60, 60)])
def test_nobody_is_refused_for_what_others_send_or_leave_unread(bodies: int, answers: int) -> None:
    """60 MB of one client's uploads: 811 requests of others to a hot engine were answered 507 in six seconds."""
    world = World(300, FakeResident("llm", 0, 190, pinned=True), FakeResident("asr", 0, 10, 60))
    traffic = world.governor.accounts.traffic
    world.heat("llm")
    traffic.came, world.undelivered = bodies * MB, answers * MB
    world.probe.base = (bodies + answers) * MB
    for _ in range(3):
        world.heat("llm")
    assert world.waits == [], "an engine that is hot and takes no more memory answers at once"

    def gone() -> None:
        traffic.gone, world.undelivered, world.probe.base = traffic.came, 0, 0

    world.on_wait = gone
    assert world.heat("asr").rung is Rung.HOT
    assert world.waits != [], "a request that takes memory waits until the others' is free"


def test_nobody_waits_behind_a_request_that_waits_for_the_room_of_an_upload() -> None:
    """One request to a cold engine beside an upload held up all requests to hot engines."""
    world = World(300, FakeResident("llm", 0, 190, pinned=True), FakeResident("asr", 0, 10, 60))
    traffic, admitted = world.governor.accounts.traffic, list[bool]()
    world.heat("llm")
    traffic.came = world.probe.base = 120 * MB

    def ask() -> None:
        reservation = world.governor.reserve_at_once(world.residents["llm"])
        admitted.append(reservation is not None)
        if reservation is not None:
            world.governor.release(reservation)
        traffic.gone, world.probe.base = traffic.came, 0

    world.on_wait = ask
    world.heat("asr")
    assert admitted == [True]
