"""The tokens of an answer after a grammar's only continuation: those that are forced, and those that are a guess."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.cases import each

from edgeserve.engines.llama.background import Background
from edgeserve.engines.llama.forced import Ahead
from edgeserve.engines.llama.picks import Picker, Picks
from edgeserve.engines.llama.slot import Slot

PIECES = ("<end>", "x", '{"', "kind", '":', ' "', "foo", "bar", "foobar", '"', "}", "\N{REPLACEMENT CHARACTER}")


class Model:
    """Its tokens are texts, the longest that fits each time. It cannot spell "é"."""

    def tokenize(self, text: str, *, add_special: bool) -> list[int]:
        assert not add_special
        found: list[int] = []
        while text:
            token = max(range(len(PIECES)), key=lambda one: len(PIECES[one]) * text.startswith(PIECES[one]))
            token = token if text.startswith(PIECES[token]) else PIECES.index("\N{REPLACEMENT CHARACTER}")
            found, text = [*found, token], text[len(PIECES[token]) :]
        return found

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return PIECES[token].encode()

    def ends(self, token: int) -> bool:
        return token == 0


class Sampler:
    """Samples "x", or ``sampled``. ``accepted``: the tokens that it was given beside."""

    constrained = True

    def __init__(self, ahead: Ahead, sampled: str = "x") -> None:
        self._ahead, self._sampled = ahead, sampled
        self.accepted: list[int] = []

    def sample_constrained(self, row: object) -> int:
        return PIECES.index(self._sampled)

    def ahead(self) -> Ahead:
        return self._ahead

    def accept(self, tokens: Sequence[int]) -> None:
        self.accepted += tokens


class Context:
    def __init__(self) -> None:
        self.model = Model()

    def logits(self, output: int) -> list[float]:
        return [0.0]


def pick(sampler: Any, *, guesses: bool = True) -> Picks:
    context: Any = Context()
    slot = Slot(0)
    slot.output = 0
    steps = Picker(context, sampler, None, Background(lambda: 1), guesses=guesses).pick(slot)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Picks = end.value
            return found


def texts(tokens: Sequence[int]) -> list[str]:
    return [PIECES[one] for one in tokens]


@each(
    ("certain", "likely", "forced", "guessed"),
    [
        ('{"kind":', '{"kind": "foo', ['{"', "kind"], ['":', ' "', "foo"]),
        ("foo", "foo", [], ["foo"]),  # "foobar" is a token, too
        ('{"kindfoo', '{"kindfoo', ['{"', "kind"], ["foo"]),
        ("", ' "foo', [], [' "', "foo"]),
        ("", "", [], []),
        ("kindé", "kindé", [], []),
    ],
)
def test_the_last_token_of_a_forced_text_is_sampled(
    certain: str, likely: str, forced: list[str], guessed: list[str]
) -> None:
    """It may be the beginning of a longer one, which the model would have chosen."""
    sampler = Sampler(Ahead(certain, likely))
    found = pick(sampler)
    assert (texts(found.forced), texts(found.likely)) == (forced, guessed)
    assert texts(sampler.accepted) == forced


def test_nothing_is_forced_after_the_end_and_without_guesses() -> None:
    ahead = Ahead('{"kind":', '{"kind":')
    for found in (pick(Sampler(ahead, "<end>")), pick(Sampler(ahead), guesses=False)):
        assert (found.forced, found.likely) == ((), ())
