"""Optional memory: it is cut to the room that there is, and no engine gives up memory for it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.cases import each
from support.memory import POLICY, FakeResident, ThriftyResident, World, readings

from edgeserve.engine import Rung
from edgeserve.memory.amount import Amount
from edgeserve.memory.budget import Budget
from edgeserve.memory.governor import OpenGovernor
from edgeserve.memory.occupancy import Need, Occupancy
from edgeserve.memory.optional_memory import excess, room_for_states
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.units import MB

CALM = POLICY.moderate_percent / 100


def asked(
    optional: int,
    amount: Amount,
    *others: Occupancy,
    usable: int = 1000,
    device: int | None = None,
    policy: MemoryPolicy = POLICY,
) -> int:
    limit = Budget(usable, usable, "fraction_of_total", {"fraction_of_total": usable}, device, usable)
    residents = [Occupancy("llm", "llm", Rung.WARM, Amount()), *others]
    return excess(optional, Need("llm", "llm", amount), residents, readings(total=0, available=0), limit, policy)


@each(
    ("title", "amount", "others", "given_up"),
    [
        ("it all fits", Amount(private=599), (), 0),
        ("moderate pressure begins at 600", Amount(private=600), (), 1),
        ("others count", Amount(private=500), (Occupancy("asr", "asr", Rung.HOT, Amount(private=200)),), 101),
        ("mapped weights are no pressure but take room", Amount(mapped=700, private=500), (), 200),
        ("moderate without it: high is the next", Amount(private=1000), (), 201),
        ("critical without it: all goes", Amount(private=1300), (), 400),
    ],
)
def test_bytes_that_have_no_room(title: str, amount: Amount, others: tuple[Occupancy, ...], given_up: int) -> None:
    assert asked(400, amount, *others) == given_up, title


@each(
    ("title", "mapped", "private", "process", "room"),
    [
        ("below HIGH", 0, 500, 0, 299),
        ("the process counts", 0, 500, 100, 199),
        ("mapped weights are no pressure", 400, 500, 0, 299),
        ("at HIGH there is none", 0, 799, 0, 0),
        ("so many are too many", 0, 850, 0, -51),
    ],
)
def test_the_room_for_past_conversations(title: str, mapped: int, private: int, process: int, room: int) -> None:
    limit = Budget(1000, 1000, "fraction_of_total", {"fraction_of_total": 1000}, None, 1000)
    residents = [Occupancy("llm", "llm", Rung.HOT, Amount(mapped=mapped, private=private))]
    now = readings(total=0, available=0, anon=private + process + 70)
    assert room_for_states(residents, now, limit, POLICY, base=process, passing=70) == room, title


def test_the_accelerators_own_memory_decides() -> None:
    assert asked(400, Amount(private=10_000, device=700), device=1000) == 101
    assert asked(400, Amount(private=100, device=700), device=None) == 201, "unified: the machine's memory"


@each(
    ("share", "amount", "device", "given_up"),
    [
        (0.4, Amount(private=500), None, 0),
        (0.1, Amount(private=500), None, 300),
        (0.0, Amount(private=500), None, 400),
        (0.1, Amount(private=500, device=400), 2000, 200),  # of the accelerator's own budget
        (0.3, Amount(private=700), None, 101),  # the level allows less
    ],
)
def test_a_share_of_the_budget_bounds_it(share: float, amount: Amount, device: int | None, given_up: int) -> None:
    policy = dataclasses.replace(POLICY, context_percent=share)
    assert asked(400, amount, device=device, policy=policy) == given_up


@given(
    some.integers(0, 3000),
    some.integers(0, 2000),
    some.integers(0, 1500),
    some.integers(0, 1500),
    some.integers(0, 1500),
)
def test_optional_context_never_raises_the_level_nor_passes_the_budget(
    optional: int, least: int, mapped: int, busy: int, usable: int
) -> None:
    other = Occupancy("asr", "asr", Rung.HOT, Amount(private=busy))
    left = optional - asked(optional, Amount(mapped, least + optional), other, usable=usable)
    assert 0 <= left <= optional
    if left:
        assert mapped + least + left + busy <= usable

        def level(used: int) -> int:
            return sum(used >= bound * usable / 100 for bound in (60, 80, 90))

        assert level(least + left + busy) == level(least + busy)


def heated(world: World) -> int:
    """MB that the language model takes after its way up."""
    return world.heat("llm").footprint().private // MB


def test_the_context_is_as_large_as_the_room_that_others_leave() -> None:
    llm = ThriftyResident("llm", 100, 5000, context=60, optional=4900)
    speech, asr = FakeResident("tts", 0, 200, last_used=-1000), ThriftyResident("asr", 0, 100)
    world = World(1000, llm, speech, asr)
    assert heated(world) == 599
    llm.rung = Rung.WARM
    world.heat("tts")
    world.heat("asr")
    asr.cached = 50 * MB
    world.later(60)
    assert 247 <= heated(world) <= 249, "of 600: 200 for speech, 100 for transcription and 50 for its cache"
    assert (speech.rung, asr.rung, asr.cached) == (Rung.HOT, Rung.HOT, 50 * MB)
    assert world.governor.evictions() == []
    for one in (llm, speech, asr):
        one.rung = Rung.COLD
    asr.cached = 0
    assert heated(world) == 599, "all of it again"


@pytest.mark.parametrize(("bodies", "answers"), [(200, 0), (0, 200), (100, 90)])
def test_what_clients_send_and_leave_unread_takes_no_context_from_others(bodies: int, answers: int) -> None:
    """It is gone in seconds; the context stays small as long as the engine has work."""
    llm = ThriftyResident("llm", 100, 5000, context=60, optional=4900)
    world = World(1000, llm, ThriftyResident("asr", 0, 100))
    world.heat("asr")
    world.governor.accounts.traffic.came = bodies * MB
    world.undelivered = answers * MB
    world.probe.base = (bodies + answers) * MB
    assert heated(world) == 499
    assert llm.shed_kinds == ["optional_context"]


def test_the_other_part_of_a_context_evicts_as_usual() -> None:
    llm = ThriftyResident("llm", 0, 5000, context=60, optional=4500)
    speech = FakeResident("tts", 0, 500)
    world = World(1000, llm, speech)
    world.heat("tts")
    world.later(60)
    assert heated(world) == 500, "the voice goes anyway, and leaves room for it"
    assert speech.rung is Rung.WARM


def test_an_engine_heated_ahead_cuts_its_context_too() -> None:
    llm = ThriftyResident("llm", 0, 5000, optional=4900)
    world = World(1000, llm)
    reservation = world.governor.reserve_if_free(llm)
    assert reservation is not None
    assert llm.takes.private // MB == 599


def test_the_context_is_cut_while_the_governor_is_off_too() -> None:
    llm = ThriftyResident("llm", 0, 5000, optional=4900)
    world = World(1000, llm, policy=dataclasses.replace(POLICY, enabled=False), kind=OpenGovernor)
    assert heated(world) == 599


def test_a_cut_context_is_not_learned_as_the_peak() -> None:
    llm = ThriftyResident("llm", 0, 5000, optional=4900)
    world = World(1000, llm)
    heated(world)
    assert world.peaks.find(llm.spec) is None


def test_a_copy_of_the_weights_is_made_where_there_is_room() -> None:
    llm = ThriftyResident("llm", 100, 400, reordered=300)
    world = World(1000, llm)
    assert heated(world) == 400
    assert llm.shed_kinds == []


@pytest.mark.parametrize("kind", ["reordered", "draft"])
def test_what_is_whole_goes_as_a_whole_without_room_and_comes_back_with_it(kind: str) -> None:
    llm = ThriftyResident("llm", 100, 400, **{kind: 300})
    speech = FakeResident("tts", 0, 300, last_used=-1000)
    world = World(1000, llm, speech)
    world.heat("tts")
    assert heated(world) == 100
    assert llm.shed_kinds == [kind]
    assert speech.rung is Rung.HOT, "no engine gives memory up for it"
    for one in (llm, speech):
        one.rung = Rung.COLD
    assert heated(world) == 400


def test_under_pressure_a_copy_goes_at_the_first_rest_and_comes_back_with_the_room() -> None:
    llm = ThriftyResident("llm", 100, 400, reordered=300)
    world = World(1000, llm)
    assert heated(world) == 400
    world.probe.base = 250 * MB
    world.governor.relieve()
    assert llm.rung is Rung.HOT, "used just now"
    world.clock.now += POLICY.grace_seconds
    world.governor.relieve()
    assert llm.rung is Rung.WARM
    assert heated(world) == 100, "with mapped weights"
    world.probe.base = 550 * MB
    world.clock.now += POLICY.grace_seconds
    world.governor.relieve()
    assert llm.rung is Rung.HOT, "it has no copy to give back"
    world.probe.base = 0
    world.governor.relieve()
    world.governor.step_down(llm, Rung.WARM, "idle")
    assert heated(world) == 400


def test_a_copy_of_the_weights_goes_before_the_context() -> None:
    llm = ThriftyResident("llm", 0, 900, reordered=300, optional=300)
    world = World(1000, llm)
    assert heated(world) == 599
    assert llm.shed_kinds == ["optional_context", "reordered"]


def test_a_context_as_large_as_the_model_was_trained_on_leaves_room_for_the_copy() -> None:
    llm = ThriftyResident("llm", 0, 60_300, reordered=300, optional=60_000)
    world = World(1000, llm, policy=dataclasses.replace(POLICY, context_percent=0.1))
    assert heated(world) == 400
    assert llm.shed_kinds == ["optional_context"]


def test_the_share_of_a_context_does_not_bound_a_copy() -> None:
    amount, limit = Amount(private=300), Budget(1000, 1000, "total", {"total": 1000}, None, 1000)
    policy = dataclasses.replace(POLICY, context_percent=0.1)
    llm, need = Occupancy("llm", "llm", Rung.WARM, Amount()), Need("llm", "llm", amount)
    assert excess(300, need, [llm], readings(total=0, available=0), limit, policy, kind="reordered") == 0
