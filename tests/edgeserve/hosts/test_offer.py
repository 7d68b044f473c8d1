"""The life of the process that offers memory: its first answer, its last words, and its next start."""

from __future__ import annotations

import functools
import itertools
import signal
import socket

import pytest
from support.offer_entries import WORDS, Instead
from support.rpc_server import FREE, TOTAL

from edgeserve.errors import EngineFailure
from edgeserve.hosts.offer import Offering
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.splits.asking import Offer, ask


def endpoint() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def offering(entry: str, **given: object) -> Offering:
    return Offering(Instead(entry), endpoint(), 1 << 20, MemoryPolicy(), **given)  # type: ignore[arg-type]


def test_a_worker_has_begun_once_it_answers() -> None:
    offered = offering("serves")
    with offered.begin() as child:
        assert child.exit is None
        assert ask(offered.endpoint) == Offer(FREE, TOTAL)
    with pytest.raises(EngineFailure, match="cannot be reached"):
        ask(offered.endpoint)


def test_a_worker_whose_first_client_came_from_elsewhere_has_begun() -> None:
    """Each client has the worker for itself, for as long as it likes: that ends no worker."""
    with offering("listens", ask=functools.partial(ask, seconds=0.2)).begin() as child:
        assert child.exit is None


def test_a_worker_that_ends_at_once_says_why() -> None:
    with pytest.raises(EngineFailure, match=WORDS):
        offering("says").begin()
    with pytest.raises(EngineFailure, match="the worker ended with code 3"):
        offering("dies").begin()


def test_a_worker_that_never_answers_is_ended() -> None:
    ticks = itertools.count(step=20.0)
    with pytest.raises(EngineFailure, match=r"does not answer after 60 s: 127.0.0.1:.* cannot be reached"):
        offering("waits", clock=lambda: next(ticks)).begin()


class Enough(Exception):
    """The test has seen enough."""


def test_a_worker_that_is_killed_starts_again_after_a_pause_that_grows() -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise Enough

    offered = offering("serves", pause=pause, clock=lambda: 0.0)
    begin = offered.begin

    def begin_and_kill() -> object:
        child = begin()
        assert ask(offered.endpoint) == Offer(FREE, TOTAL)
        child.signal(signal.SIGKILL)
        return child

    offered.begin = begin_and_kill  # type: ignore[method-assign, assignment]
    with pytest.raises(Enough):
        offered.keep(begin_and_kill())  # type: ignore[arg-type]
    assert pauses == [0.0, 0.0, 1.0, 2.0]
