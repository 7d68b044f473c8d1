from __future__ import annotations

from support.cases import each

from edgeserve.talk.ending import is_over


@each("text", ["What time is it?", "Turn on the light.", "Stop!", 'He said "go."', "そうです。"])
def test_a_whole_sentence_is_over(text: str) -> None:
    assert is_over(text)


@each("text", ["", "I would like", "I want to go to the.", "Well...", "Bread, milk and", "Because.", "um."])
def test_a_sentence_that_goes_on_is_not(text: str) -> None:
    assert not is_over(text)
