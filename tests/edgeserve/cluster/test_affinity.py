"""Conversations and the nodes that answered them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.cluster import affinity
from edgeserve.cluster.affinity import ENDS, LONG, MOST_DIGESTS, Affinity, digests

SYSTEM = {"role": "system", "content": "Be brief."}
FIRST = {"role": "user", "content": "Who are you?"}
ANSWER = {"role": "assistant", "content": "A model."}
NEXT = {"role": "user", "content": "Which one?"}


def test_a_conversation_goes_on_where_it_began() -> None:
    memory = Affinity()
    memory.keep(digests("chat", [SYSTEM, FIRST]), "box")
    assert memory.home(digests("chat", [SYSTEM, FIRST, ANSWER, NEXT])) == "box"
    assert memory.home(digests("chat", [SYSTEM, FIRST])) == "box"


def test_a_shared_system_message_has_no_home() -> None:
    memory = Affinity()
    memory.keep(digests("chat", [SYSTEM, FIRST]), "box")
    assert memory.home(digests("chat", [SYSTEM, NEXT])) == ""
    assert memory.home(digests("other", [SYSTEM, FIRST, ANSWER, NEXT])) == ""
    assert memory.home(()) == ""


def test_the_longest_beginning_decides() -> None:
    memory = Affinity()
    memory.keep(digests("chat", [FIRST]), "old")
    memory.keep(digests("chat", [FIRST, ANSWER, NEXT]), "new")
    assert memory.home(digests("chat", [FIRST, ANSWER, NEXT, ANSWER, FIRST])) == "new"


def test_the_memory_is_bounded_and_forgets_the_oldest() -> None:
    memory = Affinity(most=2)
    for number in range(3):
        memory.keep(digests(str(number), [FIRST]), "box")
    memory.keep((), "box")
    assert len(memory) == 2
    assert [memory.home(digests(str(number), [FIRST])) for number in range(3)] == ["", "box", "box"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=80),
    st.integers(1, 12),
)
def test_the_client_with_the_most_makes_room(kept: list[tuple[str, int]], most: int) -> None:
    """One client's many conversations took the homes of all others, whose prompts were read again elsewhere."""
    memory = Affinity(most=most)
    held: dict[str, list[bytes]] = {}
    for client, number in kept:
        conversation = digests("chat", [number])
        memory.keep(conversation, f"{client}{number}", client)
        own = held.setdefault(client, [])
        if conversation[0] in own:
            own.remove(conversation[0])
        own.append(conversation[0])
        if sum(map(len, held.values())) > most:
            greediest = max(held, key=lambda one: len(held[one]))
            held[greediest].pop(0)
            held = {one: own for one, own in held.items() if own}
    assert len(memory) == sum(map(len, held.values())) <= most
    for client in "abc":
        for number in range(31):
            [digest] = digests("chat", [number])
            wanted = f"{client}{number}" if digest in held.get(client, ()) else ""
            assert memory.home([digest], client) == wanted


def test_a_flood_of_one_client_leaves_the_homes_of_others() -> None:
    memory = Affinity(most=100)
    for number in range(20):
        memory.keep(digests("chat", [number]), "box", "192.0.2.1")
    for number in range(1000):
        memory.keep(digests("chat", [f"flood {number}"]), "other", "192.0.2.9")
    memory.keep(digests("chat", [3]), "other", "192.0.2.9")
    assert [memory.home(digests("chat", [number]), "192.0.2.1") for number in range(20)] == ["box"] * 20
    assert len(memory) == 100


def test_the_order_of_keys_does_not_matter() -> None:
    assert digests("chat", [{"a": 1, "b": 2}]) == digests("chat", [{"b": 2, "a": 1}])
    assert digests("chat", ["ab"]) != digests("chat", ["a", "b"])


def test_a_conversation_of_any_length_has_few_digests() -> None:
    long = [FIRST] * (3 * MOST_DIGESTS)
    assert len(digests("chat", long)) == MOST_DIGESTS
    memory = Affinity()
    memory.keep(digests("chat", long), "box")
    assert memory.home(digests("chat", [*long, ANSWER, NEXT])) == "box"


@each(
    "message",
    [
        "漢" * 1_000_000,
        {"role": "user", "content": "é" * 1_000_000},
        {"role": "user", "content": [{"type": "text", "text": "\U0001f600" * 500_000}] * 3},
        {"k" * 1_000_000: None},
    ],
)
def test_a_long_text_is_not_written_in_one_call(message: Any) -> None:
    """8 million wide characters held the door of a cluster for 0.2 s."""
    written: list[str] = []

    def dumps(*given: Any, **named: Any) -> str:
        written.append(json.dumps(*given, **named))
        return written[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(affinity, "json", SimpleNamespace(dumps=dumps))
        digests("chat", [message])
    assert 0 < max(map(len, written)) < 12 * LONG


def test_long_texts_are_told_apart_by_their_lengths_and_ends() -> None:
    text = "a" * 2 * LONG
    others = [text + "a", f"b{text[1:]}", f"{text[1:]}b", f"{text[: 2 * LONG - ENDS]}b{text[: ENDS - 1]}", text[:LONG]]
    found = {digests("chat", [{"content": one}]) for one in (text, *others)}
    assert len(found) == 1 + len(others)
    assert digests("chat", [{"content": "a" * 2 * LONG}]) == digests("chat", [{"content": text}])
