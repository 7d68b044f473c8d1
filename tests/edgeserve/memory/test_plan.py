"""The plan: tables for each of its six decisions, and properties of every machine and every set of engines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.cases import each
from support.memory import POLICY, readings

from edgeserve.engine import Rung
from edgeserve.jobs import JOBS, Job
from edgeserve.memory.amount import Amount
from edgeserve.memory.budget import Budget
from edgeserve.memory.occupancy import Need, Occupancy, Saving, booked, overhead
from edgeserve.memory.plan import Decision, Step, Verdict, plan

NOW = 1000.0


def limit(usable: int, *, device: int | None = None, warm: int = 10_000) -> Budget:
    return Budget(usable, usable, "fraction_of_total", {"fraction_of_total": usable}, device, warm)


def occupies(
    job: Job, mapped: int = 0, private: int = 0, *, idle: float = 60, rung: Rung = Rung.HOT, **more: Any
) -> Occupancy:
    if rung is Rung.COLD:
        mapped = private = 0
    return Occupancy(job, job, rung, Amount(mapped, private), last_used=NOW - idle, **more)


def ask(amount: Amount, *others: Occupancy, usable: int = 1000, policy: Any = POLICY, **settings: Any) -> Decision:
    """The vision engine, cold, wants ``amount``."""
    residents = [occupies("vision", rung=Rung.COLD), *others]
    need = Need("vision", "vision", amount)
    return plan(need, residents, readings(total=0, available=0), limit(usable, **settings), NOW, policy)


@each(
    ("title", "others", "verdict", "steps"),
    [
        ("nothing else is there", [], Verdict.ADMIT, ()),
        ("just fits", [occupies("llm", 400)], Verdict.ADMIT, ()),
        ("one byte too much", [occupies("llm", 401)], Verdict.STEP, (Step("llm", Rung.WARM),)),
        (
            "the least recently used goes first",
            [occupies("llm", 300, idle=60), occupies("asr", 300, idle=90), occupies("tts", 200, idle=70)],
            Verdict.STEP,
            (Step("asr", Rung.WARM), Step("tts", Rung.WARM)),
        ),
        (
            "an engine whose step down is not needed stays",
            [occupies("tts", 10, idle=90), occupies("llm", 500, idle=60)],
            Verdict.STEP,
            (Step("llm", Rung.WARM),),
        ),
        (
            "one rung before two: warm memory goes only when parking is not enough",
            [occupies("llm", 300, idle=60), occupies("asr", 0, 300, idle=90, rung=Rung.WARM)],
            Verdict.STEP,
            (Step("llm", Rung.WARM),),
        ),
        (
            "two rungs when one is not enough",
            [occupies("llm", 100, 500, idle=60, warm=Amount(private=450))],
            Verdict.STEP,
            (Step("llm", Rung.COLD),),
        ),
        ("a leased engine is waited for", [occupies("llm", 500, leases=1)], Verdict.WAIT, ()),
        ("an engine at work is waited for", [occupies("llm", 500, busy=True)], Verdict.WAIT, ()),
        ("an engine within grace is waited for", [occupies("llm", 500, idle=4.9)], Verdict.WAIT, ()),
        ("grace ends after five seconds", [occupies("llm", 500, idle=5)], Verdict.STEP, (Step("llm", Rung.WARM),)),
        ("a pinned engine is neither moved nor waited for", [occupies("llm", 500, pinned=True)], Verdict.REFUSE, ()),
    ],
)
def test_a_need_of_600_bytes_in_a_budget_of_1000(
    title: str, others: list[Occupancy], verdict: Verdict, steps: tuple[Step, ...]
) -> None:
    decision = ask(Amount(mapped=600), *others)
    assert (decision.verdict, decision.steps) == (verdict, steps), title


def test_the_figures_of_a_refusal() -> None:
    decision = ask(Amount(mapped=900), occupies("llm", 300, pinned=True), occupies("tts", 200))
    assert decision.verdict is Verdict.REFUSE
    assert decision.free == 500
    assert decision.evictable == 200
    assert decision.largest == 700
    assert decision.required == 1200


def test_private_memory_stays_below_critical() -> None:
    assert ask(Amount(private=899)).verdict is Verdict.ADMIT
    refused = ask(Amount(private=900))
    assert refused.verdict is Verdict.REFUSE
    assert refused.largest == 899
    assert ask(Amount(private=900), usable=refused.required).verdict is Verdict.ADMIT


def test_unexplained_memory_of_the_process_counts_against_the_budget() -> None:
    residents = [occupies("vision", rung=Rung.COLD), occupies("llm", 0, 100)]
    need = Need("vision", "vision", Amount(mapped=500))
    decision = plan(need, residents, readings(anon=501), limit(1000), NOW, POLICY)
    assert overhead(residents, readings(anon=501)) == 401
    assert decision.free == 499
    assert decision.verdict is Verdict.STEP


def test_savings_come_before_eviction_and_in_order() -> None:
    idle = occupies("llm", 0, 500, savings=(Saving("llm", "prefix_cache", 50), Saving("llm", "context", 90)))
    mine = (Saving("vision", "image", 40), Saving("vision", "context", 30))
    need = Need("vision", "vision", Amount(mapped=500))

    def decide(usable: int) -> Decision:
        me = occupies("vision", rung=Rung.COLD, savings=mine)
        return plan(need, [me, idle], readings(total=0, available=0), limit(usable), NOW, POLICY)

    assert [one.kind for one in decide(960).savings] == ["prefix_cache"]
    assert [one.kind for one in decide(930).savings] == ["prefix_cache", "context"]
    assert [one.kind for one in decide(880).savings] == ["prefix_cache", "context", "image"]
    assert [one.id for one in decide(880).savings] == ["llm", "vision", "vision"], "others keep their context"
    assert decide(880).steps == ()
    assert [one.private for one in decide(960).savings] == [40], "as much as is missing"
    assert [one.private for one in decide(925).savings] == [50, 25]
    assert decide(879).steps == (Step("llm", Rung.WARM),)


def test_without_offload_or_room_in_the_warm_pool_eviction_goes_to_cold() -> None:
    victim = occupies("llm", 500, warm=Amount(private=50))
    off = type(POLICY)(cpu_offload=False)
    assert ask(Amount(mapped=600), victim, policy=off).steps == (Step("llm", Rung.COLD),)
    assert ask(Amount(mapped=600), victim, warm=49).steps == (Step("llm", Rung.COLD),)
    assert ask(Amount(mapped=600), victim, warm=50).steps == (Step("llm", Rung.WARM),)


def test_weights_that_two_engines_share_count_once() -> None:
    me = Occupancy("vision", "vision", Rung.WARM, Amount(), weights="model.gguf")
    llm = occupies("llm", 600, 50, weights="model.gguf")
    need = Need("vision", "vision", Amount(mapped=600, private=50))
    assert booked([me, llm], {}, need) == Amount(600, 100)
    assert plan(need, [me, llm], readings(), limit(700), NOW, POLICY).verdict is Verdict.ADMIT


def test_an_accelerators_own_memory_has_its_own_budget() -> None:
    assert ask(Amount(device=500), device=500).verdict is Verdict.ADMIT
    assert ask(Amount(device=501), device=500).verdict is Verdict.REFUSE
    other = Occupancy("llm", "llm", Rung.HOT, Amount(device=300), last_used=NOW - 60)
    assert ask(Amount(device=300), other, device=500).steps == (Step("llm", Rung.WARM),)


amounts = st.builds(Amount, st.integers(0, 500), st.integers(0, 500))


@st.composite
def machines(draw: st.DrawFn) -> list[Occupancy]:
    others = []
    for job in JOBS:
        rung = draw(st.sampled_from(Rung))
        held = draw(amounts) if rung > Rung.COLD else Amount()
        warm = Amount(private=draw(st.integers(0, held.private))) if rung is Rung.HOT else held
        others.append(
            Occupancy(
                job,
                job,
                rung,
                held,
                warm,
                leases=draw(st.integers(0, 1)),
                last_used=NOW - draw(st.sampled_from([0.0, 4.9, 5.0, 31.0, 121.0])),
                pinned=draw(st.booleans()),
                busy=draw(st.booleans()),
            )
        )
    return others


@given(machines(), amounts, st.integers(0, 3000), st.integers(0, 1000))
def test_properties_of_every_decision(residents: list[Occupancy], amount: Amount, usable: int, anon: int) -> None:
    need = Need("asr", "asr", amount)
    machine = readings(anon=anon)
    decision = plan(need, residents, machine, limit(usable), NOW, POLICY)
    by_id = {one.id: one for one in residents}
    for step in decision.steps:
        victim = by_id[step.id]
        assert step.id != need.id
        assert victim.may_step_down(NOW, POLICY)
        assert not victim.leases
        assert not victim.pinned
        assert NOW - victim.last_used >= POLICY.grace_seconds
        assert step.to < victim.rung
    if decision.verdict in (Verdict.ADMIT, Verdict.STEP):
        after = booked(residents, {step.id: step.to for step in decision.steps}, need)
        assert after.host + overhead(residents, machine) <= usable
    if decision.verdict is Verdict.STEP:
        for spared in decision.steps:
            rungs = {step.id: step.to for step in decision.steps if step is not spared}
            fewer = booked(residents, rungs, need)
            private = fewer.private + overhead(residents, machine)
            fits = fewer.mapped + private <= usable and 100 * private < POLICY.critical_percent * usable
            assert not fits, "no engine is moved in vain"


@given(machines(), amounts, st.integers(0, 3000))
def test_a_larger_budget_never_makes_the_verdict_worse(residents: list[Occupancy], amount: Amount, usable: int) -> None:
    need = Need("asr", "asr", amount)
    order = [Verdict.ADMIT, Verdict.STEP, Verdict.WAIT, Verdict.REFUSE]
    small, large = (
        order.index(plan(need, residents, readings(), limit(size), NOW, POLICY).verdict)
        for size in (usable, usable + 500)
    )
    assert large <= small


@pytest.mark.slow
@given(machines(), amounts, st.integers(1, 3000))
def test_the_budget_that_a_refusal_requires_is_enough(residents: list[Occupancy], amount: Amount, usable: int) -> None:
    need = Need("asr", "asr", amount)
    refused = plan(need, residents, readings(), limit(usable), NOW, POLICY)
    assume(refused.verdict is Verdict.REFUSE)
    again = plan(need, residents, readings(), limit(refused.required), NOW, POLICY)
    assert again.verdict is not Verdict.REFUSE
    largest = Need("asr", "asr", Amount(private=refused.largest))
    if refused.largest:
        assert plan(largest, residents, readings(), limit(usable), NOW, POLICY).verdict is not Verdict.REFUSE
