"""The order of the requests that wait for memory."""

from __future__ import annotations

from edgeserve.memory.tickets import Tickets

NEVER = float("-inf")


def test_tickets_are_served_in_the_order_of_arrival() -> None:
    tickets = Tickets()
    late, early = tickets.take("a", 9.0, NEVER), tickets.take("b", 3.0, NEVER)
    assert [one.id for one in tickets] == ["b", "a"]
    assert tickets.ahead(late) == [early]
    assert tickets.ahead(early) == []
    assert tickets.ahead(None) == [early, late], "a newcomer stands behind all"
    assert tickets.ids() == {"a", "b"}


def test_requests_that_arrive_at_once_keep_their_order() -> None:
    tickets = Tickets()
    assert [tickets.take(name, 1.0, NEVER) for name in "abc"] == list(tickets)


def test_an_engine_that_makes_way_stands_behind_those_for_whom_it_does() -> None:
    """Its oldest request came first, but the ticket ahead has closed its gate."""
    tickets = Tickets()
    holder = tickets.take("b", 5.0, NEVER)
    holder.way = frozenset({"a"})
    tickets.take("c", 30.0, NEVER)
    tickets.take("a", 1.0, NEVER)
    assert [one.id for one in tickets] == ["b", "a", "c"]


def test_an_engine_that_has_had_its_turn_queues_again_from_then_on() -> None:
    """Else two engines with long queues would take turns before a third gets any."""
    tickets = Tickets()
    tickets.take("c", 30.0, NEVER)
    tickets.take("a", 1.0, 60.0)
    assert [one.id for one in tickets] == ["c", "a"]


def test_a_dropped_ticket_leaves_its_place() -> None:
    tickets = Tickets()
    first, second = tickets.take("a", 1.0, NEVER), tickets.take("b", 2.0, NEVER)
    tickets.drop(first)
    assert tickets.ahead(second) == []
    assert tickets
    tickets.drop(second)
    assert not tickets
