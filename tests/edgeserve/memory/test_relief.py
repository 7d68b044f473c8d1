"""Relief of pressure: rounds by level, checks while an answer is made, and dropped prefix caches."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from support.cases import each
from support.memory import POLICY, FakeResident, ThriftyResident, World, world_at

from edgeserve.engine import Footprint, Rung
from edgeserve.errors import DoesNotFit, MemoryPressure
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.governor import Governor
from edgeserve.units import MB


@each(
    ("percent", "idle", "rung"),
    [
        (59, 1000, Rung.HOT),
        (60, 119, Rung.HOT),
        (60, 120, Rung.WARM),
        (80, 29, Rung.HOT),
        (80, 30, Rung.WARM),
        (90, 4, Rung.HOT),
        (90, 5, Rung.COLD),
    ],
)
def test_a_round_moves_idle_engines_by_level(percent: int, idle: int, rung: Rung) -> None:
    world = world_at(percent, FakeResident("asr", 0, 10))
    world.later(idle)
    world.governor.relieve()
    assert world.residents["asr"].rung is rung


def test_the_levels_are_logged_as_in_the_reference(caplog: pytest.LogCaptureFixture) -> None:
    world = world_at(85, FakeResident("asr", 0, 10))
    world.later(60)
    world.governor.relieve()
    assert "HIGH memory pressure: 85.0%. Offloading idle models." in caplog.text
    world.probe.base = 941 * MB
    world.governor.relieve()
    assert "CRITICAL memory pressure! Usage: 94.1%. Forcing aggressive eviction." in caplog.text


def test_a_check_below_critical_does_nothing() -> None:
    world = world_at(89, FakeResident("asr", 0, 10))
    world.later(60)
    world.governor.check()
    assert world.residents["asr"].rung is Rung.HOT
    assert world.trims == 0


def test_an_old_reading_alone_stops_no_answer() -> None:
    world = world_at(95, FakeResident("llm", 0, 10))
    old = world.probe.read()
    world.probe.base = 100 * MB
    world.probe.known = lambda: old
    world.governor.check()
    assert world.governor.fragmentation()["num_alloc_retries"] == 0


def test_at_critical_idle_engines_make_room_and_the_answer_goes_on() -> None:
    world = world_at(95, FakeResident("llm", 0, 10), FakeResident("asr", 0, 100))
    world.later(60)
    world.residents["llm"].leases = 1
    world.governor.check()
    assert world.residents["asr"].rung is Rung.COLD
    assert world.residents["llm"].rung is Rung.HOT
    assert world.trims == 1
    assert world.governor.fragmentation()["num_alloc_retries"] == 1


def test_at_critical_with_nothing_left_the_answer_fails_with_the_figures() -> None:
    world = world_at(95, FakeResident("llm", 0, 10))
    world.residents["llm"].leases = 1
    with pytest.raises(MemoryPressure, match=r"950 MB are used, 95% of the budget of 1000 MB") as caught:
        world.governor.check()
    assert caught.value.retry_after == POLICY.pressure_interval
    assert world.governor.fragmentation()["num_ooms"] == 1


def test_the_next_answer_is_stopped_once_the_memory_of_the_last_may_have_come_back() -> None:
    """Eight answers checked within some milliseconds, and all of them ended for the memory of one."""
    world = world_at(95, FakeResident("llm", 0, 10))
    world.residents["llm"].leases = 1
    with pytest.raises(MemoryPressure):
        world.governor.check()
    world.governor.check()
    world.later(1)
    with pytest.raises(MemoryPressure):
        world.governor.check()


@each(
    ("own", "bodies", "answers", "stops"),
    [
        (850, 100, 0, False),
        (850, 0, 100, False),
        (850, 60, 60, False),
        (850, 100, 400, True),
        (910, 40, 0, True),
        (950, 0, 0, True),
    ],
)
def test_no_answer_is_stopped_for_what_other_clients_send(own: int, bodies: int, answers: int, stops: bool) -> None:
    """60 MB of one client's uploads stopped the answers of others: 15 in six seconds."""
    world = World(1250, FakeResident("llm", 0, 10), policy=dataclasses.replace(POLICY, max_percent=0.8))
    world.heat("llm").leases = 1
    world.governor.accounts.traffic.came, world.undelivered = bodies * MB, answers * MB
    world.probe.base = (own - 10 + bodies + answers) * MB
    with pytest.raises(MemoryPressure) if stops else contextlib.nullcontext():
        world.governor.check()


def test_no_answer_is_stopped_for_responses_that_are_stored() -> None:
    """They stay for hours: each answer of an engine that left little room was stopped, hours later."""
    world = World(1250, FakeResident("llm", 0, 890), policy=dataclasses.replace(POLICY, max_percent=0.8))
    world.heat("llm").leases = 1
    world.probe.base = 100 * MB
    with pytest.raises(MemoryPressure):
        world.governor.check()
    world.governor.accounts.stored = lambda: 50 * MB
    world.governor.check()


def beside_decoders(idle: int, base: int) -> tuple[World, FakeResident]:
    """An answer at work beside an idle engine of ``idle`` MB, and 600 MB of decoders among ``base`` MB."""
    llm, asr = FakeResident("llm", 0, 10), FakeResident("asr", 0, idle)
    world = World(1250, llm, asr, policy=dataclasses.replace(POLICY, max_percent=0.8))
    world.heat("asr")
    world.heat("llm").leases = 1
    world.later(60)
    world.helpers, world.probe.base = 600 * MB, base * MB
    return world, asr


def test_a_large_decoder_ends_before_an_answer_or_an_idle_engine() -> None:
    """Sound files of one key stopped answers of others: the decoders held more than the budget leaves to the system."""
    world, asr = beside_decoders(10, 1430)

    def end() -> bool:
        world.helpers, world.probe.base = world.helpers - 200 * MB, world.probe.base - 200 * MB
        return True

    world.end_helper = end
    world.governor.check()
    assert (world.helpers, asr.rung) == (0, Rung.HOT)
    world.probe.base, world.end_helper = 1000 * MB, lambda: False
    with pytest.raises(MemoryPressure):
        world.governor.check()


def test_no_decoder_ends_where_memory_would_stay_critical_without_it() -> None:
    """All decoders ended, and idle engines that could make room stood untouched."""
    world = world_at(95, FakeResident("llm", 0, 10), FakeResident("asr", 0, 100))
    world.later(60)
    world.residents["llm"].leases, world.helpers = 1, 40 * MB
    ended: list[bool] = []
    world.end_helper = lambda: ended.append(True) or False  # type: ignore[func-returns-value]
    world.governor.check()
    assert (ended, world.residents["asr"].rung) == ([], Rung.COLD)


def test_decoders_end_once_idle_engines_have_made_room_for_the_rest() -> None:
    world, asr = beside_decoders(100, 1470)
    rungs: list[Rung] = []

    def end() -> bool:
        rungs.append(asr.rung)
        world.helpers, world.probe.base = 0, 870 * MB
        return True

    world.end_helper = end
    world.governor.check()
    assert rungs == [Rung.COLD]


def test_no_answer_is_stopped_for_decoders_of_others() -> None:
    world = World(1250, FakeResident("llm", 0, 10), policy=dataclasses.replace(POLICY, max_percent=0.8))
    world.heat("llm").leases = 1
    world.helpers, world.probe.base = 100 * MB, 940 * MB
    world.governor.check()
    world.helpers = 0
    with pytest.raises(MemoryPressure):
        world.governor.check()


@each(
    ("private", "grown", "stops"),
    [(800, 1, False), (800, 49, False), (800, 60, True), (10, 2, True), (400, 30, True)],
)
def test_no_answer_is_stopped_for_what_admitted_ones_take_beyond_their_measure(
    private: int, grown: int, stops: bool
) -> None:
    """A plan may fill the budget up to CRITICAL: grammars of one client's answers stopped those of another model."""
    world = World(1250, FakeResident("llm", 0, private), policy=dataclasses.replace(POLICY, max_percent=0.8))
    world.heat("llm").leases = 1
    world.probe.base = (899 - private) * MB
    world.governor.check()
    world.probe.base += grown * MB
    with pytest.raises(MemoryPressure) if stops else contextlib.nullcontext():
        world.governor.check()


@each(
    ("kept", "rest", "stops"),
    [(60, 850, False), (5, 897, False), (120, 850, False), (140, 890, False), (20, 910, True)],
)
def test_no_answer_is_stopped_for_conversations_kept_for_later(kept: int, rest: int, stops: bool) -> None:
    """The next answer of any client was stopped for those of all others."""
    world = World(1250, ThriftyResident("llm", 0, 10), policy=dataclasses.replace(POLICY, max_percent=0.8))
    one: Any = world.heat("llm")
    one.leases, one.cached = 1, kept * MB
    world.probe.base += (rest + kept) * MB - world.probe.read().unreclaimable
    with pytest.raises(MemoryPressure) if stops else contextlib.nullcontext():
        world.governor.check()


@each(("private", "budget", "room"), [(300, 1000, 199), (300, 700, 0), (440, 1000, 0), (10, 1000, 779)])
def test_conversations_of_engines_at_work_never_raise_the_pressure_to_high(
    private: int, budget: int, room: int
) -> None:
    """Conversations of two models, 64 MB each, took the budget to 107%: seven answers of another client ended."""
    world = World(budget, *(ThriftyResident(job, 0, private) for job in ("llm", "embedding")))
    residents: list[Any] = [world.heat(one) for one in world.residents]
    for one in residents:
        one.leases = 1
    for turn in range(100):
        one = residents[turn % 2]
        world.heat(one.id)
        one.cached = min(one.cached + 20 * MB, one.most)
    assert sum(one.cached for one in residents) // MB == room
    world.governor.check()


def test_engines_at_work_give_conversations_back_at_high() -> None:
    world = World(1000, ThriftyResident("llm", 0, 300), FakeResident("asr", 0, 100))
    one: Any = world.heat("llm")
    one.leases, one.cached = 1, 200 * MB
    world.heat("asr")
    world.probe.base = 250 * MB
    world.governor.relieve()
    assert one.cached == 149 * MB


def test_answers_beside_what_clients_send_clean_up_once_a_second() -> None:
    """Each answer that continued collected garbage at every check: no other Python code runs meanwhile."""
    world = World(1250, FakeResident("llm", 0, 10), policy=dataclasses.replace(POLICY, max_percent=0.8))
    world.heat("llm").leases = 1
    world.governor.accounts.traffic.came, world.probe.base = 100 * MB, 940 * MB
    for _ in range(30):
        world.governor.check()
    assert world.trims == 1
    world.later(1)
    world.governor.check()
    assert world.trims == 2
    world.probe.base = 1140 * MB
    with pytest.raises(MemoryPressure):
        world.governor.check()


def test_an_admitted_answer_is_never_stopped_by_its_own_size() -> None:
    """The plan keeps private memory below CRITICAL, so that an admitted answer passes its checks."""
    for private in range(880, 905):
        world = World(1000, FakeResident("llm", 50, private))
        with contextlib.suppress(DoesNotFit):
            world.heat("llm").leases = 1
            world.governor.check()


def test_full_machines_drop_idle_prefix_caches() -> None:
    llm = ThriftyResident("llm", 0, 10, cached=1)
    world = World(1000, llm)
    world.heat("llm")
    world.later(60)
    world.probe.others = 680 * MB
    world.governor.relieve()
    assert llm.shed_kinds == []
    world.probe.others = 690 * MB
    world.governor.relieve()
    assert llm.shed_kinds == ["prefix_cache"]
    assert llm.rung is Rung.HOT


def test_the_prefix_cache_of_a_long_idle_engine_is_dropped() -> None:
    llm = ThriftyResident("llm", 0, 10, cached=5)
    world = World(1000, llm)
    world.heat("llm")
    world.governor.drop_prefix_cache(llm)
    assert llm.cached == 0
    assert llm.rung is Rung.HOT


LOOKS: dict[str, Callable[[Governor], object]] = {
    "check": Governor.check,
    "relieve": Governor.relieve,
    "stats": Governor.stats,
    "models": Governor.models,
    "offloaded": Governor.offloaded,
    "reserve": lambda governor: governor.reserve(governor.accounts["tts"].resident),
    "reserve_at_once": lambda governor: governor.reserve_at_once(governor.accounts["tts"].resident),
    "reserve_if_free": lambda governor: governor.reserve_if_free(governor.accounts["tts"].resident),
}


@pytest.mark.parametrize("percent", [10, 95])
@pytest.mark.parametrize("name", LOOKS)
def test_every_look_at_all_engines_holds_the_lock(name: str, percent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models come and go on the event loop: a look without the lock may meet that, and end somebody's answer."""
    world = world_at(percent, ThriftyResident("llm", 0, 20, cached=50), FakeResident("tts", 0, 1))
    world.later(60)
    accounts, look, owned = world.governor.accounts, Accounts.occupancies, list[bool]()

    def occupancies(*given: Any) -> Any:
        owned.append(accounts.changed._is_owned())  # type: ignore[attr-defined]
        return look(*given)

    monkeypatch.setattr(Accounts, "occupancies", occupancies)
    with contextlib.suppress(DoesNotFit, MemoryPressure):
        LOOKS[name](world.governor)
    assert all(owned)
    assert owned or name in ("models", "offloaded") or (name, percent) == ("check", 10)


def test_nobody_waits_for_the_disk_as_a_killed_engine_is_estimated() -> None:
    chat = FakeResident("llm", 0, 100)
    world = world_at(10, chat)
    held: list[bool] = []

    def estimate() -> Footprint:
        held.append(world.governor.accounts.changed._is_owned())  # type: ignore[attr-defined]
        return chat.says

    chat.estimate = estimate  # type: ignore[method-assign]
    world.governor.outgrew(chat.spec)
    assert held
    assert not any(held)
