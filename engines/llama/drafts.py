"""Speculative decoding: guessed tokens ride in the call that decodes the next token.

The answer samples at each of them with its own sampler and keeps them as long as they are what it samples. So an answer
is the same as without drafts (docs/decisions/0032-speculation.md), and a wrong guess costs only time. How many tokens
to draft follows from the share of guesses that came true, and from the measured cost of larger calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.lookup import Lookup
from edgeserve.engines.llama.pace import Pace

FIRST = (0.3, 0.5, 0.7, 0.8, 0.9, 0.9, 0.7)
"""Chance of a guessed token before any guess, by kind. The kinds: matches of 2, 3, 4 to 7, 8 to 15, and more tokens;
guesses of a grammar; guesses of a draft model."""
KINDS = len(FIRST)
FORCED, DRAFTED = KINDS - 2, KINDS - 1
"""Kinds of guesses that a grammar made, and a draft model."""
FADES = 0.97
"""Weight of the guesses of a draft model after each answer: once nobody asks it any more, it is tried again some 100
answers later."""
FIRST_WEIGHT = 2.0
"""Guesses that the first chance counts as."""
PRIOR = 4.0
"""Guesses of the engine's other answers that count as much in a new answer."""
REMEMBERED = 64
"""Guesses of a kind that count in full; older ones count half."""
SURE = 0.98
"""Chance of a guess at most."""
GAIN = 1.05
"""A draft must promise so many times the tokens a second."""
CROWDED = 1.25
"""A draft may make a call so many times as long, while other answers wait for it."""
PLAIN_EVERY = 64
"""Calls with drafts before one without, which measures again what they are compared with."""


@dataclass(slots=True)
class Guess:
    """Tokens that may come next.

    ``chance``: one of them is right if those before it are. ``written``: tokens of the answer so far.
    """

    tokens: Sequence[int]
    chance: float
    kind: int
    written: int = 0

    @property
    def open(self) -> bool:
        """Whether the draft model has yet to make its tokens."""
        return self.kind == DRAFTED and not self.tokens


class Costs(Protocol):
    """Costs of a draft model. ``share``: size of its weights beside those of the model that it guesses for."""

    share: float
    pace: Pace


class Chances:
    """Shares of guesses that came true, by kind. ``prior``: those of all answers, for one answer."""

    def __init__(self, prior: Chances | None = None) -> None:
        self._prior = prior
        self._tried, self._right = [0.0] * KINDS, [0.0] * KINDS

    def note(self, kind: int, tried: int, right: int) -> None:
        """Count guesses here and in the prior."""
        if self._tried[kind] >= REMEMBERED:
            self.fade(kind, 0.5)
        self._tried[kind] += tried
        self._right[kind] += right
        if self._prior is not None:
            self._prior.note(kind, tried, right)

    def fade(self, kind: int, by: float) -> None:
        """Count earlier guesses of a kind less."""
        self._tried[kind] *= by
        self._right[kind] *= by

    def of(self, kind: int) -> float:
        """Chance of a guessed token, at most SURE."""
        before, weight = (FIRST[kind], FIRST_WEIGHT) if self._prior is None else (self._prior.of(kind), PRIOR)
        return min(SURE, (self._right[kind] + weight * before) / (self._tried[kind] + weight))


class Drafts:
    """The drafts of an engine, and the knowledge of when they pay.

    - ``longest``: tokens of all drafts in one call; 0: none, ever
    - ``clock`` in seconds
    - ``model``: costs of the draft model; None without one
    """

    def __init__(
        self, longest: int, clock: Callable[[], float] = time.perf_counter, model: Costs | None = None
    ) -> None:
        self.longest = longest
        self.clock = clock
        self.model = model
        self.pace = Pace()
        self.chances = Chances()
        self._drafted = 0

    def writer(self, tokens: Sequence[int]) -> Drafter:
        """The drafter of an answer to a prompt."""
        self.chances.fade(DRAFTED, FADES)
        return Drafter(self, tokens) if self.longest else NoDrafter()

    @property
    def drafting(self) -> float:
        """Seconds in which the draft model makes a token. Requires one call of the other model."""
        if self.model is None or not self.pace.reach:
            return 0.0
        own = self.model.pace
        return own.cost(1) if own.reach else self.model.share * self.pace.cost(1)

    def plan(self, guesses: Sequence[Guess | None], room: int, forced: int = 0) -> list[int]:
        """Tokens to draft for each answer of a call, at most ``room`` together.

        ``guesses``: one for each answer. ``forced``: tokens of the call beside one of each answer.
        """
        counts = self._plan(guesses, room, forced)[0]
        if not any(counts):
            return counts
        if self._drafted >= PLAIN_EVERY:
            self._drafted = 0
            return [0] * len(guesses)
        self._drafted += 1
        return counts

    def rate(self, guess: Guess) -> float:
        """Tokens a second with the best draft of a guess; 0 where none pays, or before a call was measured."""
        counts, rate = self._plan([guess], self.longest, 0)
        return rate if any(counts) else 0.0

    def _plan(self, guesses: Sequence[Guess | None], room: int, forced: int) -> tuple[list[int], float]:
        """The tokens to draft, and the tokens a second that they promise."""
        counts, pace, answers = [0] * len(guesses), self.pace, len(guesses)
        begun = answers + forced
        room = min(room, self.longest, pace.reach - begun)
        if room <= 0 or not any(guesses):
            return counts, 0.0
        base = pace.cost(begun)
        bound = base * CROWDED if answers > 1 else float("inf")
        size, expected, best, spent = begun, float(begun), begun / base * GAIN, 0.0
        for number, guess in _likeliest(guesses):
            each = self.drafting if guess.open else 0.0
            gain, more, found = 0.0, 0, 0.0
            for count in range(1, min(self.longest if guess.open else len(guess.tokens), room - (size - begun)) + 1):
                gain += guess.chance**count
                cost = pace.cost(size + count) + spent + count * each
                if cost > bound:
                    break
                if (expected + gain) / cost > best:
                    best, more, found = (expected + gain) / cost, count, gain
            counts[number] = more
            size, expected, spent = size + more, expected + found, spent + more * each
        return counts, best


def _likeliest(guesses: Sequence[Guess | None]) -> Iterator[tuple[int, Guess]]:
    """The guesses with their numbers, the likeliest first."""
    made = [(number, guess) for number, guess in enumerate(guesses) if guess is not None]
    yield from sorted(made, key=lambda one: -one[1].chance)


class Drafter:
    """Guesses the next tokens of one answer, and learns from those that come."""

    def __init__(self, drafts: Drafts, tokens: Sequence[int]) -> None:
        self._drafts = drafts
        self._chances = Chances(drafts.chances)
        self._lookup = Lookup(tokens)
        self._guess: Guess | None = None
        self._written = 0

    def note(self, tokens: Sequence[int], forced: Sequence[int] = ()) -> None:
        """Note the next tokens of the answer, and those that a grammar forces after them."""
        if (guess := self._guess) is not None and guess.tokens:
            tried, right = _compare(guess.tokens, tokens)
            self._chances.note(guess.kind, tried, right)
        for token in (*tokens, *forced):
            self._lookup.add(token)
        self._written += len(tokens) + len(forced)

    def guess(self, likely: Sequence[int] = ()) -> Guess | None:
        """A guess at the next tokens, perhaps one that the draft model has to make. ``likely``: that of a grammar."""
        tokens, kind = (likely, FORCED) if likely else self._looked_up()
        found = Guess(tokens[: self._drafts.longest], self._chances.of(kind), kind) if tokens else None
        if self._drafts.model is not None:
            own = Guess((), self._chances.of(DRAFTED), DRAFTED, self._written)
            if self._drafts.rate(own) > (self._drafts.rate(found) if found else 0.0):
                found = own
        self._guess = found
        return found

    def _looked_up(self) -> tuple[Sequence[int], int]:
        return self._lookup.guess(self._drafts.longest), _kind(self._lookup.matched)


class NoDrafter(Drafter):
    """For an engine that makes no drafts."""

    def __init__(self) -> None:
        pass

    def note(self, tokens: Sequence[int], forced: Sequence[int] = ()) -> None:
        pass

    def guess(self, likely: Sequence[int] = ()) -> None:
        return None


def _kind(matched: int) -> int:
    """The kind of a guess by the tokens that match: 2, 3, 4 to 7, 8 to 15, or more."""
    return max(0, min(matched - 2, 1)) if matched < 4 else min(matched.bit_length() - 1, FORCED - 1)


def _compare(guessed: Sequence[int], came: Sequence[int]) -> tuple[int, int]:
    """Numbers of guessed tokens that were tried, and that were right, up to the first wrong one."""
    right = 0
    for one, other in zip(guessed, came, strict=False):
        if one != other:
            return right + 1, right
        right += 1
    return right, right
