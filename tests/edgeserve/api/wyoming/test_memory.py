"""Turns that are kept, and those that are forgotten."""

from __future__ import annotations

from support.gates import Clock

from edgeserve.api.wyoming.memory import CHARS, MESSAGES, MOST, SECONDS, Memory
from edgeserve.messages import Message, TextPart


def turn(text: str) -> tuple[Message, ...]:
    return Message("user", (TextPart(text),)), Message("assistant", (TextPart(text),))


def test_a_conversation_is_of_its_client() -> None:
    memory = Memory()
    memory.keep(("here", "1"), turn("a"))
    assert memory.turns(("here", "1")) == turn("a")
    assert memory.turns(("there", "1")) == memory.turns(("here", "2")) == ()


def test_a_conversation_without_an_id_is_not_kept() -> None:
    memory = Memory()
    memory.keep(("here", ""), turn("a"))
    assert len(memory) == 0


def test_old_conversations_are_forgotten() -> None:
    clock = Clock()
    memory = Memory(clock)
    memory.keep(("here", "1"), turn("a"))
    clock.now += SECONDS - 1
    memory.keep(("here", "2"), turn("b"))
    assert memory.turns(("here", "1"))
    clock.now += 1
    assert memory.turns(("here", "1")) == ()
    assert memory.turns(("here", "2"))


def test_the_oldest_of_too_many_are_forgotten() -> None:
    memory = Memory()
    for number in range(MOST + 1):
        memory.keep(("here", str(number)), turn("a"))
        memory.keep(("here", "0"), turn("again"))
    assert len(memory) == MOST
    assert memory.turns(("here", "1")) == ()
    assert memory.turns(("here", "0"))


def test_the_latest_turns_are_kept_and_begin_with_the_user() -> None:
    memory = Memory()
    memory.keep(("here", "1"), turn("a")[1:] + turn("b") * MESSAGES)
    assert memory.turns(("here", "1")) == turn("b") * (MESSAGES // 2)
    memory.keep(("here", "1"), turn("x" * (CHARS // 4)) * 3)
    assert memory.turns(("here", "1")) == turn("x" * (CHARS // 4)) * 2


def test_many_conversations_of_one_client_push_out_nobody_elses() -> None:
    memory = Memory()
    for number in range(3):
        memory.keep(("there", str(number)), turn("mine"))
    for number in range(2 * MOST):
        memory.keep(("here", str(number)), turn("flood"))
    assert len(memory) == MOST
    assert all(memory.turns(("there", str(number))) == turn("mine") for number in range(3))
    assert memory.turns(("here", str(2 * MOST - 1))) == turn("flood")
