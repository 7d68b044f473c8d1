"""Reservations: at once, or after others have moved down or become idle; and their end."""

from __future__ import annotations

import contextlib
import math
import threading
from pathlib import Path

import pytest
from support.memory import POLICY, FakeResident, World

from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import Busy, Cancelled, ShuttingDown
from edgeserve.memory.admission import STUCK
from edgeserve.memory.budget import budget
from edgeserve.memory.plan import Verdict
from edgeserve.memory.terms import Terms
from edgeserve.system.readings import Readings
from edgeserve.units import MB


def test_a_cold_engine_that_fits_is_admitted_and_booked() -> None:
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


def test_a_failed_load_returns_all_its_memory() -> None:
    world = World(1000, FakeResident("llm", 100, 20, 5))
    reservation = world.governor.reserve(world.residents["llm"])
    world.governor.release(reservation)
    assert world.booked() == 0


def test_a_closed_engine_holds_nothing() -> None:
    world = World(1000, FakeResident("llm", 100, 20))
    world.heat("llm").rung = Rung.COLD
    assert world.booked() == 0


def test_an_engine_mapped_at_startup_is_counted() -> None:
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


def test_the_least_recently_used_engine_makes_room() -> None:
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


def test_an_engine_within_its_grace_time_makes_way_for_a_request_at_once() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    world.heat("asr")
    world.heat("llm")
    assert world.waits == []
    assert world.residents["asr"].rung is Rung.WARM


@pytest.mark.parametrize("to", [Rung.WARM, Rung.COLD])
def test_an_engine_that_steps_down_behind_a_reading_has_no_request_refused(to: Rung) -> None:
    """Its memory then counted as the server's own, beside which nothing fits: a request that fits was 507."""
    world = World(1000, FakeResident("llm", 0, 600), FakeResident("asr", 0, 600))
    asr = world.heat("asr")
    read = world.probe.read

    def read_late() -> Readings:
        found: Readings = read()
        world.probe.read_quick = read
        world.governor.step_down(asr, to, "idle")
        return found

    world.probe.read_quick = read_late
    world.heat("llm")
    assert (world.residents["llm"].rung, asr.rung) == (Rung.HOT, to)


def test_an_engine_past_its_grace_time_makes_way_first() -> None:
    """Both are idle, and either is enough. The one that was used a moment ago is spared, though it comes first."""
    world = World(1000, FakeResident("llm", 400), FakeResident("asr", 0, 400), FakeResident("tts", 0, 400))
    asr = world.heat("asr")
    world.later(10)
    tts = world.heat("tts")
    world.later(1)
    world.heat("llm")
    assert (asr.rung, tts.rung) == (Rung.WARM, Rung.HOT)


def test_an_answer_under_way_is_waited_for_however_long_it_takes() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    asr, answer = world.residents["asr"], world.begin("asr")

    def on_wait() -> None:
        if world.clock.now >= 1212 and asr.leases:
            world.end(answer)

    world.on_wait = on_wait
    world.heat("llm")
    assert asr.woken, "it may rest"
    assert world.clock.now == pytest.approx(1212, abs=0.5)
    assert asr.rung is Rung.WARM


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "patience"), [(True, 5000), (False, STUCK)])
def test_answers_that_take_no_step_for_long_are_stuck(steps: bool, patience: float) -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    asr, answer = world.residents["asr"], world.begin("asr")

    def on_wait() -> None:
        asr.rounds += steps
        if world.clock.now >= 6000 and asr.leases:
            world.end(answer)

    world.on_wait = on_wait
    if steps:
        world.heat("llm")
    else:
        with pytest.raises(Busy, match="within 600 s"):
            world.heat("llm")
    assert world.clock.now == pytest.approx(1000 + patience, abs=1)


def test_a_lease_without_an_answer_keeps_an_engine_for_its_hot_time_only() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    asr = world.heat("asr")
    asr.leases = 1
    world.heat("llm")
    assert world.clock.now == pytest.approx(1000 + POLICY.min_hot_seconds, abs=0.01)
    assert asr.rung is Rung.WARM


def test_an_engine_whose_answers_nobody_reads_gives_its_memory_up() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    asr, answer = world.residents["asr"], world.begin("asr")

    def on_wait() -> None:
        asr.unread = not answer.released and world.clock.now >= 1012

    def cut() -> None:
        asr.unread = False
        world.end(answer)

    world.on_wait, asr.cut_all_unread = on_wait, cut  # type: ignore[method-assign]
    world.heat("llm")
    assert world.clock.now == pytest.approx(1012, abs=1)
    assert (asr.leases, asr.rung) == (0, Rung.WARM)


def test_answers_are_cut_only_where_their_engine_has_the_memory_that_is_missing() -> None:
    """One unread engine is too small to help, another is pinned. The request waits for the third, which is at work."""
    tts, embedding = FakeResident("tts", 0, 50), FakeResident("embedding", 0, 50, pinned=True)
    world = World(1000, FakeResident("llm", 500, 20), FakeResident("asr", 0, 500), tts, embedding)
    answers = [world.begin(job) for job in ("asr", "tts", "embedding")]
    tts.unread = embedding.unread = True
    world.on_wait = lambda: world.end(answers[0]) if world.clock.now > 1010 and not answers[0].released else None
    world.heat("llm")
    assert world.clock.now == pytest.approx(1010, abs=0.6)
    assert (tts.leases, embedding.leases) == (1, 1)
    assert tts.unread


def test_a_request_that_nothing_moves_for_is_refused_in_the_end() -> None:
    """The engine in its way refuses to move, and no answer is under way in it."""
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    world.heat("asr").refuses = True
    with pytest.raises(Busy, match="which did not happen within 30 s"):
        world.heat("llm")
    assert world.clock.now == pytest.approx(1030, abs=0.5)
    assert not world.governor.accounts.tickets


def test_an_engine_is_heated_ahead_only_where_it_fits() -> None:
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


def test_the_servers_end_ends_a_wait() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    world.begin("asr")
    world.on_wait = world.governor.accounts.close
    with pytest.raises(ShuttingDown):
        world.governor.reserve(world.residents["llm"])


def test_a_cancelled_request_moves_no_engine() -> None:
    world = World(200, FakeResident("llm", 0, 100), FakeResident("asr", 0, 100))
    world.heat("llm")
    world.clock.now += 1000
    gone = threading.Event()
    gone.set()
    with pytest.raises(Cancelled, match="while it waited for memory"):
        world.governor.reserve(world.residents["asr"], Terms(gone))
    assert world.residents["llm"].rung is Rung.HOT
    assert world.booked() == 100 * MB


def test_a_request_that_is_cancelled_while_it_waits_ends() -> None:
    world = World(200, FakeResident("llm", 0, 100), FakeResident("asr", 0, 100))
    world.begin("llm")
    gone = threading.Event()
    world.on_wait = lambda: gone.set() if len(world.waits) == 3 else None
    with pytest.raises(Cancelled):
        world.governor.reserve(world.residents["asr"], Terms(gone))
    assert len(world.waits) == 3
    assert world.booked() == 100 * MB


def test_a_reservation_ends_with_its_context() -> None:
    world = World(1000, FakeResident("llm", 100, 20, 5))
    with world.governor.reserve(world.residents["llm"]):
        assert world.booked() == 125 * MB
    assert world.booked() == 0


def test_an_answer_rests_for_no_request_that_another_engines_answer_holds_up() -> None:
    world = World(1000, FakeResident("llm", 300, 20), FakeResident("tts", 0, 300), FakeResident("asr", 0, 800))
    chat, _ = world.begin("llm"), world.begin("tts")
    accounts, resting = world.governor.accounts, world.governor.in_the_way
    accounts.tickets.take("asr", world.clock.now, -math.inf).way = frozenset({"llm", "tts"})
    world.later(60)
    speech = world.residents["tts"].spec
    assert not resting(speech)
    assert resting(world.residents["llm"].spec), "a list of texts of the chat model itself"
    world.governor.release(chat)
    assert resting(speech)


def test_an_engine_makes_way_for_one_that_has_used_up_its_own_savings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chat waited for the transcription to go, which waited for the chat to save: both were 503 after 30 s."""
    world = World(400, FakeResident("llm", 0, 300), FakeResident("asr", 0, 80, 70))
    one, accounts = world.heat("asr"), world.governor.accounts
    one.leases = 1
    monkeypatch.setattr(world.residents["llm"], "savings", lambda: {"context": 60 * MB})
    world.later(60)
    accounts["llm"].expect(accounts.peaks)
    chat = accounts.tickets.take("llm", world.clock.now - 2, -math.inf)
    sound = accounts.tickets.take("asr", world.clock.now - 1, -math.inf)
    readings = world.probe.read_quick()

    def verdict() -> Verdict:
        entry, limit = accounts["asr"], budget(readings, accounts.policy)
        return accounts.turn(entry, readings, limit, sound).decision.verdict

    assert verdict() is Verdict.WAIT, "the chat fits beside it, with a smaller context"
    chat.spent = frozenset({("llm", "context")})
    assert verdict() is Verdict.YIELD


def test_an_engine_that_opens_for_a_prompt_has_no_request_refused() -> None:
    """Its worker counted as the server's own: transcriptions were refused with 507 while the chat model opened."""
    world = World(300, FakeResident("llm", 0, 40, warm=30), FakeResident("asr", 0, 200))
    llm = world.residents["llm"]
    with contextlib.ExitStack() as opening:
        opening.enter_context(world.governor.opening(llm.spec))
        llm.left = 80

        def on_wait() -> None:
            llm.go(Rung.WARM)
            opening.close()

        world.on_wait = on_wait
        assert world.heat("asr").rung is Rung.HOT
    assert len(world.waits) == 1
