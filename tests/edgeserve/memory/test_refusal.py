"""Refusals: their figures, and the setting that they advise."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cases import each
from support.memory import POLICY, FakeResident, ThriftyResident, World

from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import Busy, DoesNotFit
from edgeserve.memory.budget import budget
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.memory.traffic import Own, own
from edgeserve.units import MB


def test_an_engine_that_does_not_move_makes_the_other_busy_not_refused() -> None:
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    world.heat("asr").refuses = True
    started = world.clock.now
    with pytest.raises(Busy, match=r"fake-llm needs 620 MB of memory; 500 MB of the budget of 1,000 MB") as caught:
        world.governor.reserve(world.residents["llm"])
    assert caught.value.retry_after == 5
    assert "within 30 s; try again later" in caught.value.message
    assert world.clock.now - started == pytest.approx(30, abs=0.5)
    assert world.residents["asr"].rung is Rung.HOT


def test_a_request_that_waits_for_what_clients_send_is_told_so() -> None:
    world = World(300, FakeResident("llm", 0, 190, pinned=True), FakeResident("asr", 0, 10, 60))
    world.heat("llm")
    world.governor.accounts.traffic.came, world.undelivered, world.probe.base = 90 * MB, 30 * MB, 120 * MB
    with pytest.raises(Busy, match=r"idle and the 120 MB of other requests' files and unread answers are gone,"):
        world.heat("asr")


def test_a_request_waits_until_decoders_of_others_have_ended() -> None:
    """It was refused with 507, as one that never fits: pictures of one key refused 80 requests of others."""
    world = World(300, FakeResident("llm", 0, 190, pinned=True), FakeResident("asr", 0, 10, 60))
    world.heat("llm")
    world.helpers = world.probe.base = 100 * MB

    def end() -> None:
        world.helpers = world.probe.base = 0

    world.on_wait = end
    assert world.heat("asr").rung is Rung.HOT


def test_a_request_waits_until_the_heap_shrinks_that_requests_of_others_have_grown() -> None:
    """Values of their JSON, and free pages, were taken for what the server needs for good: others were refused 507."""
    world = World(300, FakeResident("llm", 0, 190))
    world.probe.base = 20 * MB
    world.heat("llm")
    world.governor.step_down(world.residents["llm"], Rung.COLD, "idle")
    world.governor.accounts.traffic.came, world.probe.base = 10 * MB, 120 * MB

    def shrink() -> None:
        world.probe.base = 30 * MB

    world.on_wait = shrink
    assert world.heat("llm").rung is Rung.HOT


@each("base", [0, 30])
def test_what_others_requests_take_uncounted_is_no_reason_to_refuse(base: int) -> None:
    """While they run, nobody knows whose the memory is: prompts being read, or JSON in pieces."""
    world = World(300, FakeResident("llm", 0, 20, 5), FakeResident("asr", 0, 190))
    world.probe.base = base * MB
    world.heat("llm")
    world.residents["llm"].leases = 1
    with world.governor.reserve(world.residents["llm"]):
        world.governor.accounts.traffic.came, world.probe.base = MB, 100 * MB

        def end() -> None:
            world.probe.base = base * MB

        world.on_wait = end
        assert world.heat("asr").rung is Rung.HOT


def test_a_heap_that_stays_large_without_other_requests_is_no_reason_to_wait() -> None:
    world = World(300, FakeResident("llm", 0, 190))
    world.heat("llm")
    world.governor.step_down(world.residents["llm"], Rung.COLD, "idle")
    world.probe.base = 120 * MB
    with pytest.raises(DoesNotFit):
        world.heat("llm")
    assert world.waits == []


@pytest.fixture
def owning() -> Iterator[Callable[[int], None]]:
    """Sets the bytes of the current request's own body."""
    before = own.get()
    yield lambda size: own.set(Own(lambda: size)) and None
    own.set(before)


@each(("mine", "others", "unread"), [(120, 0, 0), (90, 5, 5), (60, 0, 10), (50, 0, 0)])
def test_a_body_that_leaves_its_own_request_no_room_is_refused_at_once(
    owning: Callable[[int], None], mine: int, others: int, unread: int
) -> None:
    """It waited 30 s for itself, and got 503: its body stays as long as the request."""
    world = World(300, FakeResident("llm", 0, 190, pinned=True), FakeResident("asr", 0, 10, 60))
    world.heat("llm")
    owning(mine * MB)
    world.governor.accounts.traffic.came, world.undelivered = (mine + others) * MB, unread * MB
    world.probe.base = (mine + others + unread) * MB
    with pytest.raises(
        DoesNotFit, match=rf"own body and pictures take {mine} MB, and there is no room for both: send less at a"
    ):
        world.heat("asr")
    assert world.waits == []
    world.governor.accounts.traffic.gone, world.undelivered, world.probe.base = (mine + others) * MB, 0, 0
    owning(0)
    assert world.heat("asr").rung is Rung.HOT


def test_a_body_of_less_than_a_megabyte_is_not_named_as_the_cause(owning: Callable[[int], None]) -> None:
    """The refusal said that the body takes 0 MB, and to send less."""
    world = World(301, FakeResident("llm", 0, 190, pinned=True), FakeResident("asr", 0, 10, 70))
    world.heat("llm")
    body = MB * 95 // 100
    owning(body)
    world.governor.accounts.traffic.came = world.probe.base = body
    with pytest.raises(DoesNotFit, match="Remove pinned = true"):
        world.heat("asr")


def test_a_request_waits_for_the_bodies_of_others_beside_its_own(owning: Callable[[int], None]) -> None:
    world = World(300, FakeResident("llm", 0, 190, pinned=True), FakeResident("asr", 0, 10, 60))
    world.heat("llm")
    owning(5 * MB)
    world.governor.accounts.traffic.came = world.probe.base = 120 * MB
    with pytest.raises(Busy, match=r"idle and the 115 MB of other requests' files and unread answers are gone,"):
        world.heat("asr")


@each("body", [48, 160])
def test_no_body_helps_a_model_that_never_fits(owning: Callable[[int], None], body: int) -> None:
    world = World(300, FakeResident("llm", 0, 400))
    owning(body * MB)
    world.governor.accounts.traffic.came = world.probe.base = body * MB
    with pytest.raises(DoesNotFit, match="Choose a smaller model"):
        world.heat("llm")


def test_a_model_that_never_fits_is_refused_at_once_with_the_figures() -> None:
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


def test_memory_of_other_programs_is_named_in_the_refusal() -> None:
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


def test_a_text_model_over_the_threshold_only_logs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = tmp_path / "model.gguf"
    with model.open("wb") as file:
        file.truncate(800 * MB)
    world = World(1000, FakeResident("llm", 10))
    world.residents["llm"].spec = ModelSpec("llm", "t", "e:E", {"model": model})
    with caplog.at_level(logging.WARNING):
        world.heat("llm")
    assert "Model size 0.8 GB exceeds 70% of 1.0 GB system memory. Expect extreme slowness" in caplog.text


@each(("mine", "others", "waits"), [(0, 120, False), (0, 230, True), (120, 0, False), (60, 170, True)])
def test_what_others_send_keeps_no_engine_cold_within_half_of_what_the_budget_leaves(
    owning: Callable[[int], None], mine: int, others: int, waits: bool
) -> None:
    """A transcription waited for the end of another's speech, beside which it had room but for a third one's files."""
    llm = FakeResident("llm", 0, 800)
    world = World(1250, llm, policy=dataclasses.replace(POLICY, max_percent=0.8))
    owning(mine * MB)
    world.governor.accounts.traffic.came = world.probe.base = (mine + others) * MB
    with pytest.raises((Busy, DoesNotFit)) if waits else contextlib.nullcontext():
        world.heat("llm")


@each("mine", [0, 12, 60, 120])
def test_each_request_counts_the_same_memory_beside_the_engines(owning: Callable[[int], None], mine: int) -> None:
    """Else two engines plan another way for the request ahead of both: neither stepped down, and all waited 30 s."""
    world = World(1250, FakeResident("llm", 0, 10), policy=dataclasses.replace(POLICY, max_percent=0.8))
    world.governor.accounts.traffic.came = world.probe.base = 130 * MB
    owning(mine * MB)
    readings = world.probe.read()
    unbooked, _ = world.governor.accounts.beside(readings, budget(readings, world.governor.accounts.policy))
    assert unbooked == 5 * MB, "half of what the budget leaves is left out, whoever asks"


def test_no_context_shrinks_for_what_others_send_within_half_of_what_the_budget_leaves() -> None:
    llm = ThriftyResident("llm", 0, 800, context=300)
    world = World(1250, llm, policy=dataclasses.replace(POLICY, max_percent=0.8))
    world.governor.accounts.traffic.came = world.probe.base = 120 * MB
    assert world.heat("llm").takes.private == 800 * MB


def test_memory_of_other_programs_is_no_room_for_what_clients_send() -> None:
    world = World(1250, FakeResident("llm", 0, 800), policy=dataclasses.replace(POLICY, max_percent=0.8))
    world.governor.accounts.traffic.came = world.probe.base = 120 * MB
    world.probe.others = 250 * MB
    with pytest.raises(Busy):
        world.heat("llm")
