"""Doubts: what was learned of an engine keeps no request out by itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.memory import FakeResident, ThriftyResident, World

from edgeserve.engine import Rung
from edgeserve.errors import DoesNotFit, EdgeserveError
from edgeserve.memory.peaks import Peaks
from edgeserve.memory.terms import Terms
from edgeserve.units import MB


def polluted(private: int = 100, seen: int = 60, path: Path | None = None, **more: int) -> World:
    """A voice of so many MB, whose first way up was measured with ``seen`` MB of other requests; 150 MB fit."""
    world = World(150, FakeResident("tts", 0, private, 5, takes=private + seen, **more), FakeResident("asr", 0, 80))
    if path is not None:
        world.governor.accounts.peaks = Peaks(path)
    world.heat("tts")
    take(world, private)
    return world


def take(world: World, private: int) -> None:
    """From now on the voice takes so many MB."""
    one = world.residents["tts"]
    one.takes = dataclasses.replace(one.takes, private=private * MB)


@each("rung", list(Rung))
def test_memory_of_others_in_a_measurement_refuses_nobody(rung: Rung) -> None:
    """Each later request was refused with 507, also after a restart."""
    world = polluted(warm=20)
    one, entry = world.residents["tts"], world.governor.accounts["tts"]
    if rung < Rung.HOT:
        one.step_down(rung)
    world.heat("tts")
    assert entry.held.total == 100 * MB
    assert world.peaks.find(one.spec) == entry.hot
    world.heat("asr")
    world.heat("tts")
    assert one.opened == 3, "measured anew once"


def test_a_restart_forgets_what_was_doubted(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    world = polluted(path=path)
    found = Peaks(path).find(world.residents["tts"].spec)
    assert found is not None
    assert found.private == 160 * MB
    world.heat("tts")
    found = Peaks(path).find(world.residents["tts"].spec)
    assert found is not None
    assert found.private == 100 * MB


def test_a_surplus_that_is_measured_again_holds() -> None:
    world = polluted()
    take(world, 160)
    world.heat("tts")
    with pytest.raises(DoesNotFit):
        world.heat("tts")
    assert world.residents["tts"].opened == 2


def test_what_comes_on_top_of_a_proven_figure_is_doubted_again() -> None:
    world = polluted(seen=120)
    world.heat("tts")
    one, entry = world.residents["tts"], world.governor.accounts["tts"]
    one.step_down(Rung.COLD)
    take(world, 160)
    world.heat("tts")
    take(world, 100)
    world.heat("tts")
    assert (entry.held.total, entry.proven) == (100 * MB, entry.hot)


def test_a_measurement_beside_others_proves_nothing() -> None:
    world = polluted()
    entry = world.governor.accounts["tts"]
    take(world, 160)
    one = world.residents["tts"]
    one.takes = dataclasses.replace(one.takes, exact=False)
    world.heat("tts")
    assert (entry.source, entry.doubted, entry.proven) == ("estimate", True, None)
    one.step_down(Rung.COLD)
    one.takes = dataclasses.replace(one.takes, private=110 * MB, exact=True)
    world.heat("tts")
    assert entry.proven is not None
    assert entry.proven.private == 110 * MB


def test_what_the_system_killed_the_engine_for_holds(tmp_path: Path) -> None:
    """Else each request would end in the next kill."""
    path = tmp_path / "memory.json"
    one = FakeResident("tts", 0, 140, 5)
    for again in range(2):  # a restart
        world = World(150, one)
        world.governor.accounts.peaks = Peaks(path)
        if not again:
            world.governor.outgrew(one.spec)
        with pytest.raises(DoesNotFit):
            world.heat("tts")
    assert one.opened == 0


def test_what_was_measured_after_such_a_kill_is_doubted_all_the_same(tmp_path: Path) -> None:
    """It became firm with the next start: each later request was refused with 507."""
    path = tmp_path / "memory.json"
    one = FakeResident("tts", 0, 60, 5, takes=200)
    world = World(150, one)
    world.governor.accounts.peaks = Peaks(path)
    world.governor.outgrew(one.spec)
    world.heat("tts")
    one.step_down(Rung.COLD)
    world = World(150, one)
    world.governor.accounts.peaks = Peaks(path)
    take(world, 60)
    world.heat("tts")
    found = Peaks(path).find(one.spec)
    assert found is not None
    assert found.private == 76 * MB, "what the kill taught holds"


@each("part", ["mapped", "per_request"])
def test_what_an_earlier_version_counted_refuses_nobody(part: str) -> None:
    world = polluted(seen=0)
    one, entry = world.residents["tts"], world.governor.accounts["tts"]
    one.step_down(Rung.COLD)
    assert entry.hot is not None
    entry.hot, entry.source = dataclasses.replace(entry.hot, **{part: 80 * MB}), "learned"
    world.heat("tts")
    assert entry.hot == dataclasses.replace(one.says, per_request=5 * MB)


@each("files", [20, 28])
def test_nobody_waits_for_files_that_a_wrong_figure_leaves_no_room_beside(files: int) -> None:
    """Such requests were refused with 503 after 30 s, for as long as the files stayed."""
    world = polluted(seen=20)
    world.residents["tts"].step_down(Rung.COLD)
    world.governor.accounts.observe()
    world.governor.accounts.traffic.come(files * MB)
    world.probe.base += files * MB
    world.heat("tts")
    assert not world.waits
    assert world.residents["tts"].opened == 2


def test_an_engine_that_never_fits_is_not_measured_anew() -> None:
    world = polluted()
    world.probe.base = 120 * MB
    with pytest.raises(DoesNotFit):
        world.heat("tts")
    assert world.residents["tts"].rung is Rung.HOT
    assert world.governor.accounts["tts"].source == "measured"


def test_a_prompt_that_needs_the_whole_context_gets_it() -> None:
    """It was answered 400 with the context that a wrong figure had left."""
    world = World(150, ThriftyResident("llm", 0, 100, context=50))
    one, entry = world.residents["llm"], world.governor.accounts["llm"]
    world.heat("llm")
    assert entry.hot is not None
    entry.hot = dataclasses.replace(entry.hot, private=180 * MB)
    one.step_down(Rung.WARM)
    with world.governor.reserve(one, Terms(whole=True)) as reservation:
        one.climb()
        world.governor.settle(reservation)
        assert entry.shrunk == 0
        assert one.footprint().private == 100 * MB


@given(st.lists(st.tuples(st.sampled_from([100, 130, 160, 250]), st.booleans()), max_size=12))
def test_whatever_was_measured_the_next_request_is_served(measured: list[tuple[int, bool]]) -> None:
    """The engine takes 100 MB. Others' requests may be measured with it, but not twice in a row at a doubt."""
    world = polluted(seen=0)
    one = world.residents["tts"]
    for private, down in measured:
        one.takes = dataclasses.replace(one.takes, private=private * MB, exact=private == 100 or not down)
        if down:
            one.step_down(Rung.COLD)
            world.governor.accounts["tts"].observe()
        doubted = world.governor.accounts["tts"].doubted
        take(world, private if down and not doubted else 100)
        world.heat("tts")
    take(world, 100)
    assert world.heat("tts").rung is Rung.HOT


def served(private: int, seen: int, files: int, base: int, rung: Rung, *, beside: bool) -> tuple[bool, int]:
    """Whether three requests get what they want with ``seen`` MB too much in the peak, and the loads that it takes."""
    one, other = FakeResident("tts", 3, private, 5, warm=min(20, private)), FakeResident("asr", 2, 80)
    world = World(200, one, other)
    world.probe.base = base * MB
    world.governor.accounts.note_overhead(world.probe.read())
    if beside:
        world.heat("asr")
    one.rung = rung
    world.governor.accounts.observe()
    entry = world.governor.accounts["tts"]
    entry.hot, entry.source = dataclasses.replace(one.says, private=(private + seen) * MB), "learned"
    world.peaks.learn(one.spec, entry.hot)
    world.governor.accounts.traffic.come(files * MB)
    world.probe.base += files * MB
    try:
        for _ in range(3):
            world.heat("tts")
    except EdgeserveError:
        return False, one.opened
    return True, one.opened


@given(*(st.integers(0, most) for most in (190, 150, 60, 40)), st.sampled_from(Rung), st.booleans())
def test_a_wrong_figure_costs_one_load_at_most(
    private: int, seen: int, files: int, base: int, rung: Rung, beside: bool
) -> None:
    clean, loads = served(private, 0, files, base, rung, beside=beside)
    found, more = served(private, seen, files, base, rung, beside=beside)
    assert not clean or (found and more <= loads + 1)
