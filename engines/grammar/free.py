"""Rules of free text in which certain words lead on to other rules (Aho and Corasick, CACM 1975).

A state is the longest prefix of such a word that the text ends in. The text is free letter by letter. After a word its
rule holds, however the model's tokens cut the word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain

from edgeserve.engines.grammar.chars import one_of
from edgeserve.engines.grammar.rules import Rules, either

END = '""'
"""The text may end here."""
BLANKS = " \t\n\r"
QUOTE = '"'


def one(letters: Iterable[str]) -> str:
    return one_of([(ord(letter), ord(letter)) for letter in letters])


def other(letters: Iterable[str]) -> str:
    """Any letter but these."""
    return "[^" + one(letters)[1:]


def text_until(rules: Rules, words: Mapping[str, str]) -> dict[str, str]:
    """The rules of the states, by the text's ending; "" is the state at the beginning.

    ``words``: the rule that follows each word.
    """
    states = {word[:size]: "" for word in words for size in range(len(word))}
    states = {said: rules.reserve() for said in states}
    letters = sorted(set("".join(words)))
    for said, name in states.items():
        ways = defaultdict[str, list[str]](list)
        for letter in letters:
            longer = said + letter
            while longer not in words and longer not in states:
                longer = longer[1:]
            if longer:  # else it is a letter like any other
                ways[words[longer] if longer in words else states[longer]].append(letter)
        steps = (f"{one(some)} {following}" for following, some in ways.items())
        rules.define(name, either(END, *steps, f"{other(chain(*ways.values()))} {states['']}"))
    return states


def text_unless_object(rules: Rules, text: Mapping[str, str], key: str, following: str) -> str:
    """A text that continues with ``following`` if it begins with an object whose first key is ``key``.

    ``text``: the states of all other texts.
    """
    firsts = {said: name for said, name in text.items() if len(said) == 1}

    def else_text(*letters: str) -> list[str]:
        ways = [f"{one(said)} {name}" for said, name in firsts.items() if said not in letters]
        return [*ways, f"{other([*letters, *firsts])} {text['']}"]

    for letter in reversed(key + QUOTE):
        following = rules.add(either(END, f"{one(letter)} {following}", *else_text(letter)))
    inside, start = rules.reserve(), rules.reserve()
    for name, letter, then in ((inside, QUOTE, following), (start, "{", inside)):
        ways = (f"{one(BLANKS)} {name}", f"{one(letter)} {then}", *else_text(letter, *BLANKS))
        rules.define(name, either(END, *ways))
    return start
