"""Sessions with as many threads as other programs leave."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import pytest

from edgeserve.engines.onnx.crowd import LOOK_EVERY, PAUSE, Crowd, Sessions, extra_bytes, shrink
from edgeserve.errors import EngineFailure
from edgeserve.system import apart, pages
from edgeserve.system.load import Neighbours


class Loads(Neighbours):
    """Gives written loads, one a reading."""

    def __init__(self, loads: Iterable[float | None]) -> None:
        self._loads = iter(loads)

    def read(self) -> float | None:
        return next(self._loads)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def crowd(clock: Clock, *loads: float | None) -> Crowd:
    return Crowd(2, Loads(loads), clock, count=2)


def test_threads_follow_the_load_a_few_times_a_second() -> None:
    clock = Clock()
    found, seen = crowd(clock, 0.0, 1.0, None, 0.0), []
    for _ in range(4):
        seen += [found.threads(), found.threads()]
        clock.now += LOOK_EVERY
    assert seen == [2, 2, 1, 1, 1, 1, 2, 2]


def test_one_thread_is_one_thread_and_reads_no_load() -> None:
    assert Crowd(1, Loads([]), Clock(), count=2).threads() == 1


def test_a_session_of_fewer_threads_is_opened_once_when_it_is_needed() -> None:
    clock, made = Clock(), list[int]()

    def make(threads: int) -> str:
        made.append(threads)
        return f"session of {threads}"

    found = Sessions(crowd(clock, 0.0, 1.0, 0.0, 1.0), make)
    seen = []
    for _ in range(4):
        seen.append(found.now())
        clock.now += LOOK_EVERY
    assert seen == ["session of 2", "session of 1", "session of 2", "session of 1"]
    assert made == [2, 1]


def test_a_run_beside_a_thread_of_the_model_leaves_it_a_core() -> None:
    found = Sessions(crowd(Clock(), 0.0), lambda threads: f"session of {threads}")
    assert [found.now(busy=1), found.now()] == ["session of 1", "session of 2"]
    wide = Sessions(Crowd(2, Loads([0.0]), Clock(), count=4), lambda threads: f"session of {threads}")
    assert wide.now(busy=1) == "session of 2", "four cores have room for three threads"


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Moves of threads, in order, where core 7 is the caller's."""
    made: list[str] = []

    @contextlib.contextmanager
    def kept_from(core: int | None) -> Iterator[None]:
        made.append(f"kept from {core}")
        yield
        made.append("free")

    monkeypatch.setattr(apart, "own", lambda threads: 7 if threads > 1 else None)
    monkeypatch.setattr(apart, "kept_from", kept_from)
    monkeypatch.setattr(apart, "go", lambda core, away=False: made.append(f"{'from' if away else 'to'} {core}"))
    return made


def test_threads_of_a_session_leave_the_core_of_its_caller(moves: list[str]) -> None:
    clock = Clock()
    found = Sessions(crowd(clock, 0.0), lambda threads: moves.append(f"open {threads}"))
    found.now()
    assert moves == ["kept from 7", "open 2", "free", "to 7"]


def test_a_caller_takes_its_core_after_a_pause_alone(moves: list[str]) -> None:
    clock = Clock()
    found = Sessions(crowd(clock, 0.0), lambda threads: None)
    moves.clear()
    for seconds in (0.0, PAUSE / 2, PAUSE / 2, 2 * PAUSE):
        clock.now += seconds
        found.now()
    assert moves == ["to 7", "to 7"]


def test_beside_a_busy_thread_a_run_goes_to_another_core_at_once(moves: list[str]) -> None:
    found = Sessions(crowd(Clock(), 0.0), lambda threads: None)
    found.now(busy=1)
    moves.clear()
    found.now(busy=1)
    assert moves == ["from 7"]


def test_nobody_moves_beside_other_programs(moves: list[str]) -> None:
    found = Sessions(crowd(Clock(), 1.0), lambda threads: None)
    found.now()
    found.now(busy=1)
    assert not {"to 7", "from 7"} & set(moves)


def test_a_fixed_graph_has_one_session() -> None:
    clock, made = Clock(), list[int]()
    found = Sessions(crowd(clock, 1.0, 1.0), lambda threads: made.append(threads), fixed=True)
    found.now()
    assert made == [2]


def test_a_graph_that_cannot_be_opened_again_is_an_engine_failure() -> None:
    def make(threads: int) -> object:
        if threads == 1:
            raise EngineFailure("gone")
        return object()

    with pytest.raises(EngineFailure, match="gone"):
        Sessions(crowd(Clock(), 1.0), make).now()


def test_sessions_of_fewer_threads_are_counted_and_closed_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([100, 150, 150, 190])
    monkeypatch.setattr(pages, "private_bytes_now", lambda: next(readings))
    model = Model(crowd(Clock(), 1.0, 1.0))
    sessions = Sessions(model.crowd, lambda threads: [threads])
    whole, fewer = sessions.whole, sessions.now()
    assert (whole, fewer, extra_bytes(model)) == ([2], [1], 40)
    shrink(model)
    assert extra_bytes(model) == 0
    assert list(sessions._open.values()) == [whole]
    assert extra_bytes("a model of another kind") == 0


class Model:
    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd


def test_memory_of_a_piece_that_computes_meanwhile_is_not_a_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voice of 42 MB was learned with 59, since the load of the box opened sessions beside an answer."""
    readings = iter([100, 150, 150, 900])
    monkeypatch.setattr(pages, "private_bytes_now", lambda: next(readings))
    model = Model(crowd(Clock(), 1.0, 1.0))
    Sessions(model.crowd, lambda threads: [threads]).now()
    assert extra_bytes(model) == 50
