"""Answers follow clients' grammars one at a time, in turns, and stop when they are not wanted any more."""

from __future__ import annotations

import threading

import pytest

from engines.grammar.gbnf import parsed
from engines.grammar.matcher import PAUSE_STEPS, Matcher
from engines.grammar.turns import Turns

LONG = 20.0
"""Seconds until a test that hangs is told to fail."""


def test_one_thread_works_at_a_time_and_all_go_round() -> None:
    turns, order, working = Turns(), list[int](), 0
    lined_up = threading.Event()

    def work(number: int) -> None:
        nonlocal working
        with turns.one():
            for step in range(3):
                working += 1
                assert working == 1
                order.append(number)
                if not number and not step:
                    assert lined_up.wait(LONG)
                working -= 1
                turns.pass_on()

    threads = [threading.Thread(target=work, args=[number], daemon=True) for number in range(4)]
    for number, thread in enumerate(threads):
        thread.start()
        while number and turns.waiting < number:
            lined_up.wait(0.001)
        while not order:
            lined_up.wait(0.001)
    lined_up.set()
    for thread in threads:
        thread.join(LONG)
    assert order == [0, 1, 2, 3] * 3
    with turns.one():
        turns.pass_on()  # nobody waits


def test_a_turn_ends_with_an_error() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="no"), turns.one():
        raise ValueError("no")
    with turns.one():
        assert turns.waiting == 0


def test_a_heavy_grammar_pauses_and_can_be_ended() -> None:
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            raise KeyError("ended")

    grammar = parsed('root ::= (("a"?){1,40} "b"?){1,40} "c"')

    def walk() -> None:
        matcher = Matcher(grammar, pause)
        for _ in range(20 * PAUSE_STEPS):
            assert matcher.allows(b"a")
            matcher.accept(b"a")

    with pytest.raises(KeyError, match="ended"):
        walk()
    assert pauses == 3
