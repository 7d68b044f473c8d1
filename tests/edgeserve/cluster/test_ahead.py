"""Nodes ahead of their reports."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as some
from support.nodes import model, node

from edgeserve.cluster.ahead import Ahead
from edgeserve.cluster.place import Ask, place
from edgeserve.cluster.snapshot import Node, Snapshot
from edgeserve.engine import Rung

CHAT = model()


def state(ahead: Ahead, name: str = "box") -> tuple[Rung, int, int]:
    """Rung and requests of the model, and memory in use."""
    there = ahead.node(name)
    assert there is not None
    return there.models[0].rung, there.models[0].requests, there.used


def reported(*nodes: Node) -> Ahead:
    ahead = Ahead()
    for one in nodes:
        ahead.report(one)
    return ahead


def test_a_request_counts_from_its_start_to_its_end() -> None:
    ahead = reported(node("box", CHAT))
    assert state(ahead) == (Rung.COLD, 0, 0)
    ahead.sent("1", "box", CHAT)
    ahead.sent("2", "box", CHAT)
    assert state(ahead) == (Rung.COLD, 2, 300)
    ahead.ended("1")
    ahead.ended("1")
    ahead.ended("never sent")
    assert state(ahead) == (Rung.HOT, 1, 300)


def test_a_request_that_goes_elsewhere_leaves_its_first_node() -> None:
    ahead = reported(node("box", CHAT), node("other", CHAT))
    ahead.sent("1", "box", CHAT)
    ahead.sent("1", "other", CHAT)
    assert [state(ahead, name) for name in ("box", "other")] == [(Rung.COLD, 0, 0), (Rung.COLD, 1, 300)]
    ahead.dropped("1")
    ahead.dropped("1")
    assert state(ahead, "other") == (Rung.COLD, 0, 0)


def test_a_report_does_not_count_own_requests_again() -> None:
    ahead = reported(node("box", CHAT))
    ahead.sent("1", "box", CHAT)
    ahead.report(node("box", model(rung=Rung.HOT, requests=3)))
    assert state(ahead) == (Rung.HOT, 3, 300)
    ahead.ended("1")
    assert state(ahead) == (Rung.HOT, 2, 300)


def test_a_report_that_is_older_than_a_request_does_not_hide_it() -> None:
    ahead = reported(node("box", CHAT))
    ahead.sent("1", "box", CHAT)
    ahead.report(node("box", CHAT))
    assert state(ahead) == (Rung.COLD, 1, 300)
    ahead.report(node("box", model(rung=Rung.HOT, requests=1)))
    assert state(ahead) == (Rung.HOT, 1, 300)


def test_short_requests_one_after_another_stay_at_one_node() -> None:
    """Ten requests end within one report."""
    ahead = reported(*(node(name, CHAT) for name in "abc"))
    chosen = []
    for number in range(10):
        there = Snapshot(tuple(found for name in "abc" if (found := ahead.node(name))))
        chosen.append(place(there, Ask("chat"))[0])
        ahead.sent(str(number), chosen[-1], CHAT)
        ahead.ended(str(number))
    assert set(chosen) == {"a"}


def test_a_node_that_is_gone_is_forgotten() -> None:
    ahead = reported(node("box", CHAT))
    ahead.sent("1", "box", CHAT)
    ahead.forget("box")
    assert ahead.node("box") is None
    ahead.ended("1")
    ahead.report(node("box", CHAT))
    assert state(ahead) == (Rung.COLD, 0, 0)  # a new server at the old address


@given(some.lists(some.tuples(some.sampled_from(["sent", "ended", "report"]), some.integers(0, 5)), max_size=30))
def test_requests_are_never_lost_or_counted_twice(steps: list[tuple[str, int]]) -> None:
    """The router is the only one who asks, and reports are up to date."""
    ahead, open_requests = reported(node("box", CHAT)), set[int]()
    for step, number in steps:
        if step == "sent" and number not in open_requests:
            open_requests.add(number)
            ahead.sent(str(number), "box", CHAT)
        elif step == "ended":
            open_requests.discard(number)
            ahead.ended(str(number))
        elif step == "report":
            ahead.report(node("box", dataclasses.replace(CHAT, requests=len(open_requests))))
        assert state(ahead)[1] == len(open_requests)
