"""Conversations and the nodes that answered them."""

from __future__ import annotations

from edgeserve.cluster.affinity import MOST_DIGESTS, Affinity, digests

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


def test_the_order_of_keys_does_not_matter() -> None:
    assert digests("chat", [{"a": 1, "b": 2}]) == digests("chat", [{"b": 2, "a": 1}])
    assert digests("chat", ["ab"]) != digests("chat", ["a", "b"])


def test_a_conversation_of_any_length_has_few_digests() -> None:
    long = [FIRST] * (3 * MOST_DIGESTS)
    assert len(digests("chat", long)) == MOST_DIGESTS
    memory = Affinity()
    memory.keep(digests("chat", long), "box")
    assert memory.home(digests("chat", [*long, ANSWER, NEXT])) == "box"
