"""Places for connections: no client takes all, and an idle connection gives its place to a new one."""

from __future__ import annotations

import resource
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette

from edgeserve.connections import RESERVED, Connections, most, raise_descriptors
from edgeserve.protocols.uvicorn_config import uvicorn_config


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Fake:
    def __init__(self, peer: str, rank: int | None = None, since: float = 0.0) -> None:
        self.peer, self.rank, self.since = peer, rank, since
        self.closed = self.asked = False
        self.checks: list[float] = []

    def idle(self, now: float) -> tuple[int, float] | None:
        return None if self.rank is None else (self.rank, self.since)

    def has_asked(self) -> bool:
        return self.asked

    def check(self, now: float) -> None:
        self.checks.append(now)

    def cut(self) -> None:
        self.closed = True


ARRIVALS = st.lists(
    st.tuples(st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"]), st.none() | st.integers(0, 3), st.integers(0, 9)),
    max_size=60,
)


@given(st.integers(2, 10), ARRIVALS)
def test_however_they_come_no_limit_is_passed_and_no_work_is_cut(
    limit: int, arrivals: list[tuple[str, int | None, int]]
) -> None:
    room = Connections(limit, Clock())
    inside: list[Fake] = []
    for peer, rank, since in arrivals:
        one = Fake(peer, rank, float(since))
        if room.admit(one):
            inside.append(one)
        inside = [other for other in inside if not other.closed]
        assert len(room) == len(inside) <= limit
        assert max(Counter(other.peer for other in inside).values(), default=0) <= room.share
    assert not any(one.closed for one in inside if one.rank is None)


@given(st.integers(1, 30))
def test_a_client_that_only_waits_never_shuts_another_out(many: int) -> None:
    room = Connections(8, Clock())
    waiting = [Fake("10.0.0.1", 0, number) for number in range(many)]
    assert all(room.admit(one) for one in waiting)
    assert [one.closed for one in waiting] == [number < many - room.share for number in range(many)], "oldest first"
    newcomers = [Fake("10.0.0.2") for _ in range(room.share)]
    assert all(room.admit(one) for one in newcomers)


def test_clients_that_fill_all_places_together_give_one_up_the_largest_first() -> None:
    room = Connections(8, Clock())
    held = [Fake("10.0.0.1", 0) for _ in range(4)] + [Fake(f"10.0.0.{number}", 0) for number in (2, 2, 2, 3)]
    assert all(room.admit(one) for one in held)
    assert room.admit(Fake("10.0.0.9"))
    assert [one.closed for one in held] == [True, *[False] * 7]


def test_a_client_whose_places_are_all_at_work_keeps_no_other_client_out() -> None:
    room = Connections(8, Clock())
    for _ in range(4):
        assert room.admit(Fake("10.0.0.1"))
    pausing = Fake("10.0.0.2", 2)
    resting = [Fake("10.0.0.2", 1, since) for since in (3.0, 1.0, 2.0)]
    for one in (pausing, *resting):
        assert room.admit(one)
    for _ in range(2):
        assert room.admit(Fake("10.0.0.3"))
    assert [one.closed for one in (pausing, *resting)] == [False, False, True, True]
    assert not room.admit(Fake("10.0.0.3")), "it has as many as the client that would give one up"


def test_who_never_asked_goes_before_who_did() -> None:
    room = Connections(8, Clock())
    held = [Fake("::1", 1, 0), Fake("::1", 3, 0), Fake("::1", 2, 0), Fake("::1", 0, 9)]
    for one in held:
        room.admit(one)
    closed = []
    for _ in held:
        assert room.admit(Fake("::1"))
        closed.append(next(one.rank for one in held if one.closed and one.rank not in closed))
    assert closed == [0, 1, 2, 3]
    assert not room.admit(Fake("::1")), "all of its places are at work"


def test_who_has_just_asked_gives_way_to_other_clients_alone() -> None:
    """A client that asked in vain would hear nothing. One that asks all the time must keep nobody out."""
    room = Connections(8, Clock())
    asking = [Fake("10.0.0.1", 0) for _ in range(4)]
    for one in asking:
        assert room.admit(one)
        one.asked = True
    assert not room.admit(Fake("10.0.0.1"))
    assert not any(one.closed for one in asking)
    for number in range(5):
        assert room.admit(Fake(f"10.0.0.{number + 2}"))
    assert [one.closed for one in asking] == [True, False, False, False]


def test_a_place_is_free_once() -> None:
    room = Connections(4, Clock())
    one, other = Fake("10.0.0.1"), Fake("10.0.0.1")
    assert room.admit(one)
    room.replace(one, other)
    room.remove(one)
    assert len(room) == 1
    room.remove(other)
    room.remove(other)
    assert len(room) == 0


def test_all_are_looked_at() -> None:
    clock = Clock()
    room = Connections(4, clock)
    one = Fake("10.0.0.1")
    room.admit(one)
    clock.now = 7.0
    room.look()
    assert one.checks == [7.0]


def test_a_connection_that_cannot_be_looked_at_is_cut_and_the_others_are_looked_at() -> None:
    class Broken(Fake):
        def check(self, now: float) -> None:
            raise OSError("Transport endpoint is not connected")

    room = Connections(4, Clock())
    broken, other = Broken("10.0.0.1"), Fake("10.0.0.2")
    room.admit(broken)
    room.admit(other)
    room.look()
    assert broken.closed
    assert len(other.checks) == 1


@pytest.mark.parametrize(("wanted", "descriptors", "allowed"), [(512, 8192, 512), (512, 256, 64), (512, 64, 8)])
def test_descriptors_bound_the_connections(wanted: int, descriptors: int, allowed: int) -> None:
    assert most(wanted, descriptors) == allowed


def test_the_limit_of_open_files_is_raised_and_never_lowered() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert raise_descriptors(1000) == 1000 == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert raise_descriptors(600) == 1000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_connections_of_one_turn_take_few_of_the_descriptors_that_are_kept() -> None:
    """Accepted ones are counted in the next turn. A whole backlog at once would take the last descriptor."""
    made = uvicorn_config(Starlette(), {}, None, 5)
    assert 0 < made.backlog <= RESERVED // 4
