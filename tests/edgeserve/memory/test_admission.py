"""Reserving: at once, after saving, moving others down or waiting, or not at all; and no overcommitment."""

from __future__ import annotations

import dataclasses
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from support.memory import POLICY, FakeResident, ThriftyResident, World

from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import Busy, Cancelled, DoesNotFit, EngineFailure, ShuttingDown
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.units import MB


def test_a_cold_engine_that_fits_is_let_up_and_booked() -> None:
    world = World(1000, FakeResident("llm", 100, 20, 5))
    one = world.residents["llm"]
    reservation = world.governor.reserve(one)
    assert world.booked() == 125 * MB, "the way up and the request are set aside before the engine opens"
    one.climb()
    world.governor.settle(reservation)
    assert world.booked() == 125 * MB
    world.governor.release(reservation)
    assert world.booked() == 120 * MB, "the request's bytes return"
    world.governor.release(reservation)
    assert world.booked() == 120 * MB, "a second release changes nothing"


def test_a_load_that_failed_gives_everything_back() -> None:
    world = World(1000, FakeResident("llm", 100, 20, 5))
    reservation = world.governor.reserve(world.residents["llm"])
    world.governor.release(reservation)
    assert world.booked() == 0


def test_an_engine_that_failed_and_was_closed_holds_nothing() -> None:
    world = World(1000, FakeResident("llm", 100, 20))
    world.heat("llm").rung = Rung.COLD
    assert world.booked() == 0


def test_what_was_mapped_at_startup_is_seen() -> None:
    world = World(1000, FakeResident("llm", 100, 20, warm=7), FakeResident("asr", 0, 10))
    world.residents["llm"].rung = Rung.WARM
    world.heat("asr")
    assert world.booked() == 17 * MB


def test_a_hot_engine_is_served_without_reading_or_waiting() -> None:
    world = World(1000, FakeResident("llm", 100, 20, 5))
    world.heat("llm")
    reads = world.probe.reads
    world.heat("llm")
    assert world.probe.reads == reads + 1, "one look at the last reading"
    assert world.waits == []


def test_the_least_recently_used_makes_room() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 300), FakeResident("tts", 0, 200))
    world.heat("asr")
    world.later(10)
    world.heat("tts")
    world.later(10)
    world.heat("llm")
    rungs = {job: one.rung for job, one in world.residents.items()}
    assert rungs == {"llm": Rung.HOT, "asr": Rung.WARM, "tts": Rung.HOT}
    [record] = world.governor.evictions()
    assert (record["model_type"], record["reason"], record["action"]) == ("asr", "memory_needed", "offloaded")


def test_one_in_grace_is_waited_for_and_then_evicted() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    world.heat("asr")
    started = world.clock.now
    world.heat("llm")
    assert world.clock.now - started == pytest.approx(5, abs=0.5)
    assert world.residents["asr"].rung is Rung.WARM


def test_a_leased_engine_is_waited_for_until_its_lease_ends() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    asr = world.heat("asr")
    asr.leases = 1

    def on_wait() -> None:
        if world.clock.now >= 1012 and asr.leases:
            asr.leases, asr.last_used = 0, world.clock.now

    world.on_wait = on_wait
    world.heat("llm")
    assert world.clock.now == pytest.approx(1017, abs=1)
    assert asr.rung is Rung.WARM


def test_a_lease_that_does_not_end_is_busy_not_refused() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    world.heat("asr").leases = 1
    started = world.clock.now
    with pytest.raises(Busy, match=r"fake-llm needs 620 MB of memory; 500 MB of the budget of 1,000 MB") as caught:
        world.governor.reserve(world.residents["llm"])
    assert caught.value.retry_after == 5
    assert "within 30 s; try again later" in caught.value.message
    assert world.clock.now - started == pytest.approx(30, abs=0.5)
    assert world.residents["asr"].rung is Rung.HOT


def test_what_never_fits_is_refused_at_once_with_the_figures() -> None:
    world = World(1000, FakeResident("llm", 1200, 20), FakeResident("asr", 0, 300))
    world.heat("asr")
    world.later(60)
    with pytest.raises(DoesNotFit) as caught:
        world.governor.reserve(world.residents["llm"])
    assert caught.value.message == (
        "fake-llm needs 1,220 MB of memory; 700 MB of the budget of 1,000 MB (fraction_of_total) are available and "
        "300 MB more are evictable. Choose a smaller model, quantization or context for [llm] that needs at most 900 MB"
    )
    assert world.waits == []
    assert world.residents["asr"].rung is Rung.HOT, "nothing is moved in vain"


@pytest.mark.parametrize(
    ("policy", "needs", "advice"),
    [
        (MemoryPolicy(max_percent=0.5), 700, "Set EDGESERVE_GPU_MEMORY_MAX_PERCENT=0.70 to make it fit"),
        (MemoryPolicy(os_reserve_gb=0.5), 700, "Set EDGESERVE_OS_RESERVE=0.29 to make it fit"),
        (MemoryPolicy(), 2000, "Choose a smaller model"),
    ],
)
def test_the_refusal_names_a_setting_that_would_fit(policy: MemoryPolicy, needs: int, advice: str) -> None:
    import dataclasses

    world = World(1000, FakeResident("llm", needs), policy=policy)
    with pytest.raises(DoesNotFit) as caught:
        world.governor.reserve(world.residents["llm"])
    assert advice in caught.value.message
    if "EDGESERVE" in advice:
        name, value = advice.split()[1].split("=")
        field = {"EDGESERVE_OS_RESERVE": "os_reserve_gb", "EDGESERVE_GPU_MEMORY_MAX_PERCENT": "max_percent"}[name]
        changed = dataclasses.replace(policy, **{field: float(value)})  # type: ignore[arg-type]
        World(1000, FakeResident("llm", needs), policy=changed).heat("llm")


def test_a_pinned_engine_is_named_in_the_refusal() -> None:
    world = World(1000, FakeResident("llm", 600), FakeResident("tts", 0, 500, pinned=True))
    world.heat("tts")
    world.later(60)
    with pytest.raises(DoesNotFit, match=r"Remove pinned = true from \[tts\]"):
        world.governor.reserve(world.residents["llm"])


def test_memory_that_others_hold_is_named_in_the_refusal() -> None:
    world = World(1000, FakeResident("llm", 600))
    world.probe.others = 700
    world.probe.others *= MB
    with pytest.raises(DoesNotFit, match=r"Other programs hold the memory: free 300 MB on the device"):
        world.governor.reserve(world.residents["llm"])


def test_a_vision_model_over_the_threshold_is_refused_in_the_reference_words(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    with model.open("wb") as file:
        file.truncate(800 * MB)
    world = World(1000, FakeResident("vision", 10))
    world.residents["vision"].spec = ModelSpec("vision", "v", "e:E", {"model": model})
    with pytest.raises(DoesNotFit, match=r"^Model size \(0\.8 GB\) exceeds 70% of system memory \(1\.0 GB\)\. Vision"):
        world.governor.reserve(world.residents["vision"])


def test_a_text_model_over_the_threshold_is_only_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = tmp_path / "model.gguf"
    with model.open("wb") as file:
        file.truncate(800 * MB)
    world = World(1000, FakeResident("llm", 10))
    world.residents["llm"].spec = ModelSpec("llm", "t", "e:E", {"model": model})
    with caplog.at_level(logging.WARNING):
        world.heat("llm")
    assert "Model size 0.8 GB exceeds 70% of 1.0 GB system memory. Expect extreme slowness" in caplog.text


def test_what_nobody_waits_for_is_let_up_only_where_it_fits() -> None:
    world = World(1000, FakeResident("asr", 0, 400), FakeResident("llm", 0, 400), FakeResident("tts", 0, 400))
    world.heat("asr")
    world.later(60)
    reservation = world.governor.reserve_if_free(world.residents["llm"])
    assert reservation is not None
    assert world.governor.reserve_if_free(world.residents["tts"]) is None
    world.governor.release(reservation)
    assert world.residents["asr"].rung is Rung.HOT
    assert world.waits == []
    assert world.booked() == 400 * MB


def test_a_model_too_large_for_the_machine_is_never_heated_ahead(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    with model.open("wb") as file:
        file.truncate(701 * MB)
    world = World(1000, FakeResident("vision", 0, 1))
    one = world.residents["vision"]
    one.spec = ModelSpec("vision", "v", "e:E", {"model": model})
    assert world.governor.reserve_if_free(one) is None


def test_a_prefix_cache_goes_before_anybody_is_evicted() -> None:
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


def test_the_context_shrinks_before_anybody_is_evicted() -> None:
    llm = ThriftyResident("llm", 0, 700, context=300)
    world = World(1000, llm, FakeResident("asr", 400, 100))
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    assert llm.shed_kinds == ["context"]
    assert world.residents["asr"].rung is Rung.HOT
    assert world.booked() <= 1000 * MB
    assert llm.takes.private == pytest.approx(500 * MB, rel=0.01), "no smaller than it must be"


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


def test_savings_that_are_not_enough_are_followed_by_eviction() -> None:
    llm = ThriftyResident("llm", 0, 800, context=100)
    world = World(1000, llm, FakeResident("asr", 400, 100))
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    assert llm.shed_kinds == ["context"]
    assert world.residents["asr"].rung is Rung.WARM


def test_what_a_step_down_saves_and_what_it_keeps_are_told_apart() -> None:
    llm = ThriftyResident("llm", 0, 300)
    world = World(1000, llm)
    world.heat("llm")
    llm.saves = 20 * MB
    world.later(60)
    record = world.governor.step_down(llm, Rung.WARM, "idle")
    assert record is not None
    assert record.expected == record.freed == 280 * MB
    assert world.booked() == 20 * MB


def test_weights_that_another_hot_engine_uses_are_not_expected_back() -> None:
    llm, vision = FakeResident("llm", 400, 100), FakeResident("vision", 400, 150)
    for one in (llm, vision):
        one.spec = dataclasses.replace(one.spec, files={"model": Path("one.gguf")})
    world = World(2000, llm, vision)
    world.heat("llm")
    world.heat("vision")
    world.later(60)
    record = world.governor.step_down(vision, Rung.WARM, "idle")
    assert record is not None
    assert record.expected == 150 * MB
    record = world.governor.step_down(llm, Rung.WARM, "idle")
    assert record is not None
    assert record.expected == 500 * MB


# Others at the same time


def test_a_victim_that_was_taken_into_use_meanwhile_is_passed_over() -> None:
    world = World(1000, FakeResident("llm", 600), FakeResident("asr", 0, 300), FakeResident("tts", 0, 250))
    asr, tts = world.heat("asr"), world.heat("tts")
    tts.last_used = 10.0
    world.later(60)
    tts.refuses = True
    world.heat("llm")
    assert (asr.rung, tts.rung) == (Rung.WARM, Rung.HOT)


def test_a_victim_that_fails_to_go_does_not_fail_the_request(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1000, FakeResident("llm", 600), FakeResident("asr", 0, 300), FakeResident("tts", 0, 250))
    asr, tts = world.heat("asr"), world.heat("tts")
    tts.last_used = 10.0
    world.later(60)

    def fail() -> None:
        raise EngineFailure("park failed")

    tts.before_step = fail
    world.heat("llm")
    assert asr.rung is Rung.WARM
    assert "fake-tts could not be moved down to warm" in caplog.text


def test_stopping_ends_a_wait() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    world.heat("asr").leases = 1
    world.on_wait = world.governor.accounts.close
    with pytest.raises(ShuttingDown):
        world.governor.reserve(world.residents["llm"])


def test_what_is_decided_is_booked_under_one_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1000, FakeResident("llm", 100))
    accounts, owned = world.governor.accounts, []
    monkeypatch.setattr(accounts, "decide", _noting(accounts.decide, accounts, owned))
    admission = world.governor._admission
    monkeypatch.setattr(admission, "book", _noting(admission.book, accounts, owned))
    world.heat("llm")
    world.heat("llm")
    assert owned == [True] * 4, "decide and book, for the cold and for the hot engine"


def _noting(method: Any, accounts: Any, owned: list[bool]) -> Any:
    def noting(*args: Any, **kwargs: Any) -> Any:
        owned.append(accounts.changed._is_owned())
        return method(*args, **kwargs)

    return noting


def test_two_at_once_do_not_overcommit() -> None:
    """Both fit alone. The first is on its way up, its memory not taken yet, when the second asks."""
    world = World(1000, FakeResident("llm", 600), FakeResident("asr", 600))
    llm, asr = world.residents["llm"], world.residents["asr"]
    first = world.governor.reserve(llm)
    outcome: list[object] = []

    def second() -> None:
        try:
            outcome.append(world.governor.reserve(asr))
        except Busy as error:
            outcome.append(error)

    thread = threading.Thread(target=second)
    thread.start()
    thread.join(10)
    assert isinstance(outcome[0], Busy)
    llm.climb()
    world.governor.settle(first)
    world.governor.release(first)
    llm.last_used = world.clock.now
    world.later(5)
    world.heat("asr")
    assert llm.rung is Rung.WARM
    assert world.booked() == 600 * MB


def test_a_hot_engine_is_served_while_another_is_being_moved_and_waited_for() -> None:
    """The lock is free while a victim steps down and while the switch gate waits."""
    world = World(2000, FakeResident("llm", 1200), FakeResident("asr", 0, 900), FakeResident("tts", 0, 100, 5))
    asr = world.heat("asr")
    tts = world.heat("tts")
    tts.pinned = True
    world.later(60)
    served: list[str] = []

    def serve(when: str) -> None:
        def once() -> None:
            world.governor.release(world.governor.reserve(tts))
            served.append(when)

        thread = threading.Thread(target=once)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()

    def before_step() -> None:
        serve("while stepping down")
        world.probe.late, world.probe.returning = 1000 * MB, 200 * MB

    asr.before_step = before_step
    llm = world.residents["llm"]
    world.governor.release(world.governor.reserve(llm))
    assert served == ["while stepping down"]
    assert POLICY.switch_interval in world.waits


def test_a_climb_beside_others_is_neither_booked_nor_learned() -> None:
    """An engine measures itself by what the process grew: what others took meanwhile is not its own."""
    asr, llm = FakeResident("asr", 0, 100, takes=100), FakeResident("llm", 0, 50, 5)
    world = World(1000, asr, llm)
    reservation = world.governor.reserve(asr)
    asr.takes = dataclasses.replace(asr.takes, private=300 * MB)
    world.heat("llm")
    asr.climb()
    world.governor.settle(reservation)
    world.governor.release(reservation)
    assert world.booked() == 150 * MB
    assert world.peaks.find(asr.spec) is None
    record = world.governor.step_down(asr, Rung.COLD, "idle")
    assert record is not None
    assert not record.exact
    asr.takes = dataclasses.replace(asr.takes, private=120 * MB)
    world.heat("asr")
    assert world.booked() == 170 * MB, "alone it is measured"


def test_a_client_that_has_gone_moves_nobody() -> None:
    world = World(200, FakeResident("llm", 0, 100), FakeResident("asr", 0, 100))
    world.heat("llm")
    world.clock.now += 1000
    gone = threading.Event()
    gone.set()
    with pytest.raises(Cancelled, match="while it waited for memory"):
        world.governor.reserve(world.residents["asr"], gone)
    assert world.residents["llm"].rung is Rung.HOT
    assert world.booked() == 100 * MB


def test_a_client_that_goes_while_others_are_in_use_waits_no_longer() -> None:
    world = World(200, FakeResident("llm", 0, 100), FakeResident("asr", 0, 100))
    world.heat("llm")
    world.residents["llm"].leases = 1
    gone = threading.Event()
    world.on_wait = lambda: gone.set() if len(world.waits) == 3 else None
    with pytest.raises(Cancelled):
        world.governor.reserve(world.residents["asr"], gone)
    assert len(world.waits) == 3
    assert world.booked() == 100 * MB


def test_a_reservation_ends_with_its_context() -> None:
    world = World(1000, FakeResident("llm", 100, 20, 5))
    with world.governor.reserve(world.residents["llm"]):
        assert world.booked() == 125 * MB
    assert world.booked() == 0
