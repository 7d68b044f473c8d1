"""Invariants in any order of events: the accounts are the sum over the rungs, and no engine in use is moved."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.contract import ask
from support.examples import examples
from support.gates import engine_of, make_gate, run
from support.memory import POLICY, FakeResident, World

from edgeserve.engine import Footprint, Rung
from edgeserve.errors import DoesNotFit
from edgeserve.jobs import JOBS, Job
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.governor import Governor
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.messages import SpeakRequest
from edgeserve.residency.gate import Gate
from edgeserve.system.readings import ProcessMemory
from edgeserve.units import MB


class Machine(RuleBasedStateMachine):
    """Engines on a machine too small for all of them, moved by requests, time, pressure and administrators."""

    @initialize(
        sizes=st.lists(
            st.tuples(*[st.sampled_from([0, 50, 150, 300])] * 3, st.integers(0, 50)), min_size=4, max_size=4
        ),
        total=st.sampled_from([500, 600, 800]),
        pinned=st.sampled_from([None, *JOBS]),
    )
    def build(self, sizes: list[tuple[int, int, int, int]], total: int, pinned: Job | None) -> None:
        engines = [
            FakeResident(job, mapped, private, request, warm=min(warm, private), pinned=job == pinned)
            for job, (mapped, private, warm, request) in zip(JOBS, sizes, strict=True)
        ]
        self.world = World(
            total,
            *engines,
            policy=MemoryPolicy(max_percent=1.0, os_reserve_gb=0, available_margin_gb=0),
        )
        self.world.on_wait = self.an_answer_ends
        self.world.probe.base = 20 * MB
        self.total = total
        self.open: dict[Job, Any] = {}
        for one in engines:
            one.before_step = lambda one=one: self._may_step(one)  # type: ignore[misc]

    def _may_step(self, one: FakeResident) -> None:
        assert one.id not in self.open, "an engine with an answer under way is not asked to step down"
        assert not one.pinned or self.requested
        if not self.reserving:  # a request that waits for memory ends the protection of idle engines
            assert not one.leases
            assert self.requested or self.world.clock.now - one.last_used >= POLICY.grace_seconds

    requested = reserving = False

    @rule(job=st.sampled_from(JOBS))
    def begin(self, job: Job) -> None:
        """A request is admitted with its lease, or is refused and holds nothing."""
        one = self.world.residents[job]
        if one.leases:
            return
        one.leases += 1
        self.reserving = True
        try:
            reservation = self.world.governor.reserve(one)
        except DoesNotFit:
            one.leases -= 1
            return
        finally:
            self.reserving = False
        if one.rung is not Rung.HOT:
            one.climb()
        self.world.governor.settle(reservation)
        assert self.world.booked() + self.world.probe.base <= self.total * MB, "over budget after settle"
        self.open[job] = reservation

    def an_answer_ends(self) -> None:
        """While a request waits."""
        for job in sorted(self.open)[:1]:
            self.world.governor.release(self.open.pop(job))

    @rule()
    def work_is_done(self) -> None:
        """The engines have finished; clients may still be reading."""
        for job in sorted(self.open):
            self.world.governor.release(self.open.pop(job))

    @rule()
    def last_bytes(self) -> None:
        self.work_is_done()
        for one in self.world.residents.values():
            if one.leases:
                one.leases, one.last_used = 0, self.world.clock.now

    @rule(job=st.sampled_from(JOBS))
    def whole_request(self, job: Job) -> None:
        self.begin(job)
        self.last_bytes()

    @rule(seconds=st.sampled_from([1.0, 6.0, 40.0, 130.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.later(seconds)

    @rule(job=st.sampled_from(JOBS), to=st.sampled_from([Rung.WARM, Rung.COLD]))
    def administrator(self, job: Job, to: Rung) -> None:
        one = self.world.residents[job]
        if not one.leases:
            self.requested = True
            self.world.governor.step_down(one, to, "requested")
            self.requested = False

    @rule(job=st.sampled_from(JOBS))
    def failure(self, job: Job) -> None:
        """The gate closes an engine that failed, without asking."""
        if not self.world.residents[job].leases:
            self.world.residents[job].rung = Rung.COLD

    @rule()
    def pressure(self) -> None:
        self.world.governor.relieve()

    @invariant()
    def the_accounts_are_the_sum_over_the_rungs(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.governor.accounts.observe()
        expected = sum(one.footprint().mapped + one.footprint().private for one in self.world.residents.values())
        expected += sum(self.world.residents[job].says.per_request for job in self.open)
        assert self.world.booked() == expected


Machine.TestCase.settings = examples(150, stateful_step_count=25)
TestMachine = pytest.mark.slow(Machine.TestCase)


LOADED = MemoryPolicy(
    max_percent=1.0, os_reserve_gb=0, available_margin_gb=0, grace_seconds=0, queue_seconds=20, switch_interval=0.005
)


@pytest.fixture
def loaded() -> Iterator[tuple[Governor, list[Gate]]]:
    """A governor and three gates, on a machine that one of three engines fits in."""
    world = World(200, policy=LOADED)
    governor = Governor(Accounts(LOADED), world.probe, trim=lambda: None)
    gates = [make_gate(job, governor, queue_limit=100) for job in ("llm", "vision", "tts")]
    for gate in gates:
        governor.adopt(gate)
        world.probe.residents.append(gate)
    yield governor, gates
    for gate in gates:
        gate.stop()


def outcome(gate: Gate) -> str:
    """The outcome of a request: "whole", or the name of its error."""
    events, error = run(gate, SpeakRequest("One. Two.") if gate.id == "tts" else ask("one two three"))
    whole = error is None and len(events) == (2 if gate.id == "tts" else 4)
    return "whole" if whole else type(error).__name__


@contextlib.contextmanager
def chaos(governor: Governor, gates: list[Gate]) -> Iterator[None]:
    """Evict and relieve at random meanwhile."""
    done = threading.Event()

    def move() -> None:
        dice = random.Random(7)
        while not done.is_set():
            governor.step_down(dice.choice(gates), dice.choice([Rung.WARM, Rung.COLD]), "requested")
            governor.relieve()
            done.wait(0.001)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(10)


def test_gates_under_load_keep_the_accounts_right(loaded: tuple[Governor, list[Gate]]) -> None:
    """Many threads send requests."""
    governor, gates = loaded
    answers: list[str] = []
    clients = [
        threading.Thread(target=lambda gate=gate: answers.extend(outcome(gate) for _ in range(8)))
        for gate in gates
        for _ in range(3)
    ]
    with chaos(governor, gates):
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join(60)
            assert not thread.is_alive(), "a deadlock"
    assert answers == ["whole"] * 72, "nobody is refused, and nobody waits for ever"
    for gate in gates:
        opens = [step for step in engine_of(gate).steps if step in ("open", "close")]
        assert "open open" not in " ".join(opens), "opened twice"
    assert governor.accounts.booked().host == sum(gate.footprint().total for gate in gates)
    assert governor.accounts.no_reservations()
    for gate in gates:
        gate.stop()
    assert governor.accounts.booked().host == 0


def test_undelivered_answers_count_beside_the_engines() -> None:
    world = World(200, FakeResident("llm", 0, 100), FakeResident("asr", 0, 60))
    world.heat("llm")
    world.clock.now += 1000
    world.undelivered = 60 * MB
    assert world.governor.stats()["undelivered_mb"] == 60
    world.heat("asr")
    assert world.residents["llm"].rung is not Rung.HOT, "all three do not fit"


def test_an_upload_that_has_gone_keeps_no_memory_from_engines() -> None:
    """The memory beside the engines is measured while no answer is under way, as when bodies arrive."""
    world = World(300, FakeResident("llm", 0, 100), FakeResident("asr", 0, 100))
    accounts = world.governor.accounts
    accounts.traffic.came, world.probe.base = 90 * MB, 100 * MB
    world.governor.relieve()
    assert accounts.base() == 100 * MB
    accounts.traffic.gone, world.probe.base = 90 * MB, 10 * MB
    assert accounts.base() == 10 * MB
    answer = world.begin("llm")  # nothing is measured beside it
    assert world.heat("asr").rung is Rung.HOT
    world.end(answer)


def test_an_engine_whose_memory_cannot_be_read_keeps_none_from_others(caplog: pytest.LogCaptureFixture) -> None:
    world = World(200, FakeResident("llm", 0, 100), FakeResident("asr", 0, 60))
    broken = world.residents["llm"]
    broken.rung = Rung.WARM

    def footprint() -> Footprint:
        raise OSError("the driver is gone")

    world.probe.residents.remove(broken)
    broken.footprint = footprint  # type: ignore[method-assign]
    assert world.heat("asr").rung is Rung.HOT
    assert "the memory of fake-llm could not be observed" in caplog.text


def test_an_engine_that_is_forgotten_late_leaves_the_account_of_its_successor() -> None:
    accounts = Accounts(POLICY)
    old, new = FakeResident("llm", 1, 1, 0), FakeResident("llm", 1, 1, 0)
    accounts.adopt(old)
    accounts.adopt(new)
    accounts.forget(old)
    assert accounts["llm"].resident is new
    accounts.forget(new)
    accounts.forget(new)
    assert list(accounts) == []


def test_a_decision_may_still_name_an_engine_that_was_forgotten_meanwhile() -> None:
    one, other = FakeResident("llm", 0, 100), FakeResident("asr", 0, 60)
    world = World(200, one, other)
    accounts = world.governor.accounts
    world.heat("llm")
    world.governor.forget(one)
    assert [each.resident for each in accounts] == [other]
    assert accounts.find("llm") is None
    assert world.governor.step_down(one, Rung.COLD, "requested") is None
    world.governor.outgrew(one.spec)
    again = FakeResident("llm", 0, 50)
    again.rung = Rung.HOT
    world.governor.adopt(again)
    assert accounts["llm"].resident is again
    assert world.governor.step_down(one, Rung.COLD, "idle") is None
    assert again.rung is Rung.HOT, "what an engine that left is told moves not its successor"


def test_a_decoder_that_has_ended_since_the_reading_is_no_memory_of_the_server() -> None:
    """Another thread may have read anew meanwhile. The plan took the decoder for the server itself, for a while."""
    world = World(300, FakeResident("llm", 0, 100))
    old = dataclasses.replace(world.probe.read(), process=ProcessMemory(100 * MB, total=100 * MB, helpers=90 * MB))
    accounts = world.governor.accounts
    accounts.note_overhead(old)
    assert (accounts.base(), accounts.passing_of_others(old)) == (10 * MB, 90 * MB)
    world.helpers = 90 * MB
    accounts.note_overhead(old)
    assert (accounts.base(), accounts.passing_of_others(old)) == (100 * MB, 90 * MB)


def test_a_decoder_that_came_after_the_reading_makes_the_server_no_smaller() -> None:
    """Once it had ended, the server counted with nothing beside its engines, and the plan admitted too much."""
    world = World(300, FakeResident("llm", 0, 100))
    old = dataclasses.replace(world.probe.read(), process=ProcessMemory(100 * MB, total=100 * MB))
    world.helpers = 90 * MB
    world.governor.accounts.note_overhead(old)
    world.helpers = 0
    assert world.governor.accounts.base() == 100 * MB
