"""Speculative decoding: guessed tokens ride in the call that decodes the next token.

The answer samples at each of them with its own sampler and keeps them as long as they are what it samples. So an answer
is the same as without drafts (docs/decisions/0032-speculation.md), and a wrong guess costs only time. The length of a
draft follows from the share of guesses that came true, and from the measured cost of larger calls. The time that wrong
guesses may take is bounded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.chances import DRAFTED, FORCED, LONG, Chances, OwnChances, kind_of
from edgeserve.engines.llama.credit import Credit, Purse
from edgeserve.engines.llama.lookup import Lookup
from edgeserve.engines.llama.pace import Pace

FADES = 0.97
"""Weight of the guesses of a draft model after each answer: once nobody asks it any more, it is tried again some 100
answers later."""
RECENT = 16
"""Tokens after a long match for which an answer counts as one that copies."""
GAIN = 1.05
"""A draft must promise so many times the tokens a second."""
CROWDED = 1.25
"""A draft may make a call so many times as long, while other answers wait for it."""
PLAIN_EVERY = 64
"""Calls with drafts before one without, which measures again what they are compared with."""


@dataclass(slots=True)
class Guess:
    """Tokens that may come next.

    - ``chance``: one of them is right if those before it are. ``written``: tokens of the answer so far.
    - ``limit``: the most that a draft may lose, in calls of one token; ``cover``: one that tries a new size of call.
    - ``wanted``: tokens to draft if there were no limit. ``drafted``: tokens that the call had.
    - ``others``: tokens of the call that come before the draft. ``answers``: those that need no guess.
    """

    tokens: Sequence[int]
    chance: float
    kind: int
    written: int = 0
    limit: float = math.inf
    cover: float = math.inf
    wanted: int = 0
    drafted: int = 0
    others: int = 1
    answers: int = 1

    @property
    def open(self) -> bool:
        """Whether the draft model has yet to make its tokens."""
        return self.kind == DRAFTED and not self.tokens


class Costs(Protocol):
    """Costs of a draft model. ``share``: size of its weights beside those of the model that it guesses for."""

    share: float
    pace: Pace


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
        self.purse = Purse()
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
        counts = [0] * len(guesses)
        begun = size = len(guesses) + forced
        room = min(room, self.longest, self.pace.reach - begun)
        if room <= 0 or not any(guesses):
            return counts
        expected, spent = float(begun), 0.0
        for number, guess in _likeliest(guesses):
            call = Call(self, begun, size, expected, spent, len(guesses) > 1)
            left = room - (size - begun)
            guess.others, guess.answers = size, begun
            guess.wanted = call.best(guess, left)[0]
            most = guess.limit if self.pace.knows(size + guess.wanted) else guess.cover
            counts[number], _, gain = call.best(guess, left, most * self.pace.cost(1))
            size, expected = size + counts[number], expected + gain
            spent += counts[number] * self.making(guess)
        if any(counts):
            self._drafted = (self._drafted + 1) % (PLAIN_EVERY + 1)
            if not self._drafted:
                return [0] * len(guesses)
        return counts

    def rate(self, guess: Guess) -> float:
        """Tokens a second with the best draft of a guess; 0 where none pays, or before a call was measured."""
        room = min(self.longest, self.pace.reach - 1)
        count, rate, _ = Call(self, 1, 1, 1.0, 0.0, False).best(guess, room) if room > 0 else (0, 0.0, 0.0)
        return rate if count else 0.0

    def gain(self, guess: Guess, count: int, right: int) -> float:
        """Calls of one token that a draft of ``count`` tokens saved, of which ``right`` were; below 0: it cost more."""
        pace = self.pace
        cost = pace.cost(guess.others + count) - pace.cost(guess.others) + count * self.making(guess)
        return (right * pace.cost(guess.answers) / guess.answers - cost) / pace.cost(1)

    def making(self, guess: Guess) -> float:
        """Seconds in which a token of the guess is made."""
        return self.drafting if guess.kind == DRAFTED else 0.0


@dataclass(slots=True)
class Call:
    """A call that drafts may make larger.

    - ``begun``: its tokens without drafts. ``size``: those with the drafts so far.
    - ``expected``: tokens that it gives answers. ``spent``: seconds in which a draft model makes the drafts so far.
    - ``shared``: other answers wait for it.
    """

    drafts: Drafts
    begun: int
    size: int
    expected: float
    spent: float
    shared: bool

    def best(self, guess: Guess, room: int, most: float = math.inf) -> tuple[int, float, float]:
        """The tokens to draft, the tokens a second that they promise, and the tokens that they add.

        ``most``: seconds that the draft may lose.
        """
        pace, each = self.drafts.pace, self.drafts.making(guess)
        base, before = pace.cost(self.begun), pace.cost(self.size) + self.spent
        bound = min(base * CROWDED if self.shared else math.inf, before + most)
        best, found = max(self.expected / before, self.begun / base * GAIN), (0, 0.0, 0.0)
        gain = 0.0
        for count in range(1, min(self.drafts.longest if guess.open else len(guess.tokens), room) + 1):
            gain += guess.chance**count
            cost = pace.cost(self.size + count) + self.spent + count * each
            if cost > bound:
                break
            if (self.expected + gain) / cost > best:
                best = (self.expected + gain) / cost
                found = count, best, gain
        return found


def _likeliest(guesses: Sequence[Guess | None]) -> Iterator[tuple[int, Guess]]:
    """The guesses with their numbers, the likeliest first."""
    made = [(number, guess) for number, guess in enumerate(guesses) if guess is not None]
    yield from sorted(made, key=lambda one: -one[1].chance)


class Drafter:
    """Guesses the next tokens of one answer, and learns from those that come."""

    def __init__(self, drafts: Drafts, tokens: Sequence[int]) -> None:
        self._drafts = drafts
        self._chances = OwnChances(drafts.chances)
        self._credit = Credit(drafts.purse)
        self._lookup = Lookup(tokens)
        self._guess: Guess | None = None
        self._shadow: Shadow | None = None
        self._written = 0
        self._copied = -RECENT
        """Tokens of the answer up to its latest long match."""

    def note(self, tokens: Sequence[int], forced: Sequence[int] = ()) -> None:
        """Note the next tokens of the answer, and those that a grammar forces after them."""
        guess = self._guess
        if guess is not None and guess.tokens:
            tried, right = _compare(guess.tokens, tokens)
            self._chances.note(guess.kind, tried, right)
        if self._drafts.pace.reach:
            self._settle(guess, tokens)
        for token in (*tokens, *forced):
            self._lookup.add(token)
            self._written += 1
            if self._lookup.matched >= LONG:
                self._copied = self._written

    def _settle(self, guess: Guess | None, tokens: Sequence[int]) -> None:
        """Charge a draft, or judge by the next tokens one that was held back."""
        if guess is not None and guess.drafted:
            self._credit.count(self._drafts.gain(guess, guess.drafted, len(tokens) - 1))
            self._shadow = None
            return
        self._credit.plain()
        if self._shadow is None and guess is not None and guess.tokens and guess.wanted:
            self._shadow = Shadow(guess)
        if self._shadow is not None and (right := self._shadow.judge(tokens)) is not None:
            shown, self._shadow = self._shadow.guess, None
            self._credit.show(self._drafts.gain(shown, shown.wanted, right))

    def guess(self, likely: Sequence[int] = ()) -> Guess | None:
        """A guess at the next tokens, perhaps one that the draft model has to make. ``likely``: that of a grammar."""
        tokens, kind = (likely, FORCED) if likely else self._looked_up()
        found = None
        if tokens:
            cover = self._credit.cover
            limit = cover if likely else self._credit.limit(long=self._lookup.matched >= LONG)
            found = Guess(tokens[: self._drafts.longest], self._chances.of(kind), kind, limit=limit, cover=cover)
        if self._drafts.model is not None:
            cover = self._credit.cover
            own = Guess((), self._chances.of(DRAFTED), DRAFTED, self._written, limit=cover, cover=cover)
            if self._drafts.rate(own) > (self._drafts.rate(found) if found else 0.0):
                found = own
        self._guess = found
        return found

    def _looked_up(self) -> tuple[Sequence[int], int]:
        copying = self._written - self._copied <= RECENT
        return self._lookup.guess(self._drafts.longest), kind_of(self._lookup.matched, copying)


class Shadow:
    """A draft that was held back. The next tokens judge it all the same."""

    def __init__(self, guess: Guess) -> None:
        self.guess = guess
        self._right = 0

    def judge(self, tokens: Sequence[int]) -> int | None:
        """Its right tokens, as soon as they are known."""
        wanted = self.guess.tokens[: self.guess.wanted]
        for token in tokens:
            if self._right == len(wanted) or wanted[self._right] != token:
                return self._right
            self._right += 1
        return self._right if self._right == len(wanted) else None


class NoDrafter(Drafter):
    """For an engine that makes no drafts."""

    def __init__(self) -> None:
        pass

    def note(self, tokens: Sequence[int], forced: Sequence[int] = ()) -> None:
        pass

    def guess(self, likely: Sequence[int] = ()) -> None:
        return None


def _compare(guessed: Sequence[int], came: Sequence[int]) -> tuple[int, int]:
    """Numbers of guessed tokens that were tried, and that were right, up to the first wrong one."""
    right = 0
    for one, other in zip(guessed, came, strict=False):
        if one != other:
            return right + 1, right
        right += 1
    return right, right
