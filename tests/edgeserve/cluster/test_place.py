"""The choice of a node: rules by example, and properties over all snapshots."""

from __future__ import annotations

import dataclasses
import random

from hypothesis import given
from hypothesis import strategies as some
from support.cases import each
from support.nodes import busier, model, node

from edgeserve.cluster.place import Ask, Chance, chance, cost, place
from edgeserve.cluster.snapshot import ModelState, Node, Snapshot
from edgeserve.engine import Rung
from edgeserve.memory.pressure import Level

CHAT = Ask("chat")
LEVELS = some.sampled_from(Level)


@some.composite
def models(draw: some.DrawFn, name: str) -> ModelState:
    expected = draw(some.integers(1, 800))
    rung = draw(some.sampled_from(Rung))
    return model(
        name,
        rung,
        expected=expected,
        requests=draw(some.integers(0, 9)),
        slots=draw(some.integers(1, 4)),
        pinned=draw(some.booleans()),
    )


@some.composite
def nodes(draw: some.DrawFn, name: str) -> Node:
    held = [draw(models(one)) for one in ("chat", "ears", "voice") if draw(some.booleans())]
    return node(name, *held, budget=draw(some.integers(1, 3000)), pressure=draw(LEVELS))


@some.composite
def snapshots(draw: some.DrawFn) -> Snapshot:
    return Snapshot(tuple(draw(nodes(f"n{number}")) for number in range(draw(some.integers(0, 4)))))


def first(*there: Node, ask: Ask = CHAT) -> str:
    return place(Snapshot(there), ask)[0]


def test_hot_comes_before_warm_and_warm_before_cold() -> None:
    there = [node(rung.name, model(rung=rung)) for rung in Rung]
    assert place(Snapshot(tuple(there)), CHAT) == ("HOT", "WARM", "COLD")


def test_a_cold_model_goes_where_most_room_is() -> None:
    small, large = node("small", model(), budget=500), node("large", model(), budget=900)
    assert first(small, large) == "large"


def test_memory_that_is_free_comes_before_memory_that_idle_engines_hold() -> None:
    full = node("full", model(), model("ears", Rung.HOT, expected=900), budget=1000)
    free = node("free", model(), model("ears", Rung.HOT, expected=100), budget=500)
    assert first(full, free) == "free"


def test_a_queue_sends_a_request_to_another_node_once_it_is_longer_than_a_load() -> None:
    def busy(requests: int) -> Node:
        return node("busy", model(rung=Rung.HOT, requests=requests))

    empty = node("empty", model())
    assert [first(busy(count), empty) for count in (0, 1, 2, 3)] == ["busy", "busy", "empty", "empty"]


def test_a_load_that_has_begun_is_shared_by_as_many_as_its_slots() -> None:
    def loading(requests: int) -> Node:
        return node("loading", model(requests=requests, held=300, slots=4))

    empty = node("empty", model(), budget=1200)
    assert [first(loading(count), empty) for count in (1, 3, 4, 5)] == ["loading", "loading", "empty", "empty"]


def test_slots_share_a_queue() -> None:
    one, four = (node(str(slots), model(rung=Rung.HOT, requests=3, slots=slots)) for slots in (1, 4))
    assert first(one, four) == "4"


def test_equal_nodes_take_turns_by_their_requests() -> None:
    chatting = node("chatting", model(rung=Rung.HOT), model("ears", Rung.HOT, requests=1))
    quiet = node("quiet", model(rung=Rung.HOT), model("ears", Rung.HOT))
    assert first(chatting, quiet) == "quiet"


def test_a_conversation_stays_at_its_node() -> None:
    there = [node(name, model(rung=Rung.HOT)) for name in "abc"]
    assert [first(*there, ask=Ask("chat", home=home)) for home in ("a", "b", "c", "")] == ["a", "b", "c", "a"]


def test_a_conversation_leaves_a_node_with_a_queue() -> None:
    home, other = node("home", model(rung=Rung.HOT, requests=2)), node("other", model(rung=Rung.HOT))
    assert first(home, other, ask=Ask("chat", home="home")) == "other"


def test_a_cold_model_keeps_no_conversation() -> None:
    home, other = node("home", model(), budget=900), node("other", model(), budget=1000)
    assert first(home, other, ask=Ask("chat", home="home")) == "other"


def test_a_model_that_nobody_serves_is_explained_by_the_least_busy_node() -> None:
    busy = node("busy", model("ears", requests=1))
    assert place(Snapshot((busy, node("quiet", model("ears")))), CHAT) == ("quiet", "busy")


def test_without_a_name_the_default_of_the_first_job_is_meant() -> None:
    other = node("other", model("ears", Rung.HOT, job="asr"))
    default = node("default", model("small", job="llm"), model("large", Rung.HOT, job="llm", default=True))
    assert first(other, default, ask=Ask(jobs=("llm", "vision"))) == "default"
    assert first(other, default, ask=Ask(jobs=("vision", "asr"))) == "other"


@each(
    ("there", "expected"),
    [
        (node("n", model(), budget=300), Chance.NOW),
        (node("n", model(), model("ears", Rung.HOT), budget=500), Chance.NOW),
        (node("n", model(), model("ears", Rung.HOT, requests=1), budget=500), Chance.LATER),
        (node("n", model(), model("ears", Rung.HOT, pinned=True), budget=500), Chance.LATER),
        (node("n", model(), budget=299), Chance.NEVER),
        (node("n", model(rung=Rung.HOT), budget=200), Chance.NOW),
    ],
)
def test_chances(there: Node, expected: Chance) -> None:
    assert chance(there, there.models[0]) is expected


@given(snapshots())
def test_a_node_at_critical_pressure_takes_nothing_and_all_others_may(snapshot: Snapshot) -> None:
    placed = place(snapshot, CHAT)
    calm = [one for one in snapshot.nodes if one.pressure is not Level.CRITICAL]
    serving = [one for one in calm if one.find("chat", ())]
    assert sorted(placed) == sorted(one.name for one in serving or calm)


@given(snapshots(), some.randoms())
def test_the_order_of_the_snapshot_does_not_matter(snapshot: Snapshot, dice: random.Random) -> None:
    shuffled = list(snapshot.nodes)
    dice.shuffle(shuffled)
    assert place(Snapshot(tuple(shuffled)), CHAT) == place(snapshot, CHAT)


@given(snapshots())
def test_a_lost_node_does_not_change_the_order_of_the_others(snapshot: Snapshot) -> None:
    serving = Snapshot(tuple(one for one in snapshot.nodes if one.find("chat", ())))
    for lost in place(serving, CHAT):
        rest = Snapshot(tuple(one for one in serving.nodes if one.name != lost))
        assert place(rest, CHAT) == tuple(one for one in place(serving, CHAT) if one != lost)


@given(snapshots())
def test_a_worse_chance_never_comes_before_a_better_one(snapshot: Snapshot) -> None:
    known = {one.name: found for one in snapshot.nodes if (found := one.find("chat", ()))}
    by_name = {one.name: one for one in snapshot.nodes}
    chances = [chance(by_name[name], known[name]) for name in place(snapshot, CHAT) if name in known]
    assert chances == sorted(chances)


@given(snapshots())
def test_one_more_request_never_makes_a_hot_node_better(snapshot: Snapshot) -> None:
    for at, one in enumerate(snapshot.nodes):
        found = one.find("chat", ())
        if found is None or found.rung is not Rung.HOT or one.pressure is Level.CRITICAL:
            continue
        later = busier(one)
        after = Snapshot((*snapshot.nodes[:at], later, *snapshot.nodes[at + 1 :]))
        assert place(after, CHAT).index(one.name) >= place(snapshot, CHAT).index(one.name)


@given(nodes("n"), some.sampled_from(["", "n"]))
def test_a_lower_rung_costs_more(there: Node, home: str) -> None:
    found = there.find("chat", ())
    if found is None:
        return
    costs, idle = [], dataclasses.replace(found, requests=0)
    for rung in (Rung.HOT, Rung.WARM, Rung.COLD):
        held = {Rung.COLD: 0, Rung.WARM: found.expected // 2, Rung.HOT: found.expected}[rung]
        changed = dataclasses.replace(idle, rung=rung, held=held)
        rest = [one for one in there.models if one.id != found.id]
        costs.append(cost(node("n", changed, *rest, budget=10_000), changed, home))
    assert costs == sorted(costs)
    assert len(set(costs)) == 3


@given(snapshots())
def test_the_pressure_of_all_is_the_largest(snapshot: Snapshot) -> None:
    assert snapshot.pressure == max([Level.LOW, *(one.pressure for one in snapshot.nodes)])


def test_requests_spread_over_equal_nodes() -> None:
    """Twelve requests in a row, none of them answered, are spread over three equal nodes."""
    there = {name: node(name, model(rung=Rung.HOT)) for name in "abc"}
    for _ in range(12):
        chosen = there[place(Snapshot(tuple(there.values())), CHAT)[0]]
        there[chosen.name] = busier(chosen)
    assert {one.requests for one in there.values()} == {4}
