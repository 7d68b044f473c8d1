"""The pieces in which prompts are read while answers are written.

Each piece makes the next token of those answers wait for one call of llama.cpp. Short pieces make more calls, and the
prompt takes longer. So a piece has as many tokens as the machine reads in ``GAP`` seconds.

Between pieces of prompts that do not end, the answers have time of their own. Else one client that sends prompt after
prompt would leave all others a token for each piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from edgeserve.engines.llama.adapters import Active
from edgeserve.engines.llama.pace import median
from edgeserve.engines.llama.slot import Share, Slot

GAP = 1.5
"""Seconds of a piece: so long do answers under way wait for their next token."""
OWN = 1 / 3
"""Time that answers have of their own, as a share of the time for which prompts and jobs make them wait."""
CREDIT = 2.0
"""Seconds of their own that answers go without at first, and again after as long without prompts. So a prompt now and
then, of three times as long, is read without a pause."""
LEAST_SECONDS = 0.0001
"""A call without prompts counts as so long at least: a clock may stand still."""
SHORT = 32
"""Pending tokens of an answer at most: one, and those that a grammar forces. More are a prompt."""
GAP_AHEAD = 0.2
"""Seconds of a piece of a prompt that nobody waits for yet: so long does a request wait that comes meanwhile."""
TILE = 16
"""llama.cpp multiplies so many tokens at a time; of the others in a call it takes one after the other."""
FIRST = 192
"""Tokens of a piece before any call was measured."""
LEAST = 64
"""Tokens of a piece at least, and of a call whose time counts: a token of a smaller call takes longer."""
KEPT = 3
"""Latest calls of the same adapters whose median counts: other load on the machine makes single calls slow."""
REMEMBERED = 12
"""Latest calls to remember, of all sets of adapters."""
UNKNOWN = 2.0
"""A token with adapters that were not measured is expected to take so many times as long as the slowest known. With two
adapters it takes 2.5 times as long as without, measured."""


class Pieces:
    """``most``: tokens of one call at most."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: deque[tuple[tuple[int, ...], float]] = deque(maxlen=REMEMBERED)
        """Numbers of the adapters of a call, and seconds of a token."""
        self._adapters: tuple[int, ...] = ()
        """Numbers of the adapters of the next call."""
        self._owed = -CREDIT
        """Seconds that answers have of their own now. Below zero: seconds that they go without."""

    def divide(self, waiting: Sequence[Slot], beside: bool = False) -> list[Share]:
        """The tokens of each slot in the next call. ``beside``: answers wait for its end, perhaps of other slots.

        1. Answers go first. In their own time the call is theirs alone.
        2. The shortest prompt has half of the room, so that no short one waits for all of a long one.
        3. The other prompts follow, the oldest request first.
        """
        self._adapters = _numbers(waiting[0].adapters) if waiting else ()
        prompts = sorted((slot for slot in waiting if len(slot.pending) > SHORT), key=lambda one: one.used)
        answers = sorted((slot for slot in waiting if len(slot.pending) <= SHORT), key=lambda one: one.used)
        room = self.room(len(answers)) if answers or beside else self._most
        if waiting and all(slot.ahead for slot in waiting):
            room = self.room_ahead
        wanted = [(slot, len(slot.pending)) for slot in answers]
        if not answers or self._owed <= 0:
            shortest = min(prompts, key=lambda one: len(one.pending), default=None)
            half = max(0, room - len(answers)) // 2
            wanted += [(slot, half) for slot in prompts[1:] if slot is shortest]
            wanted += [(slot, len(slot.pending)) for slot in prompts if slot is not shortest or slot is prompts[0]]
        shares = []
        for slot, most in wanted:
            shares.append(Share(slot, slot.pending[: min(most, room)], []))
            room -= len(shares[-1].tokens)
        return shares

    def owes(self, slots: Iterable[Slot]) -> bool:
        """Whether answers among these slots have time of their own now."""
        return self._owed > 0 and any(slot.waiting and len(slot.pending) <= SHORT for slot in slots)

    def delay(self, slots: Iterable[Slot], seconds: float) -> None:
        """Count seconds for which a prompt, a job or the copy of a state made the answers among these slots wait."""
        if any(slot.waiting and len(slot.pending) <= SHORT for slot in slots):
            self._owed += OWN * seconds

    def count(self, shares: Sequence[Share], seconds: float, slots: Iterable[Slot]) -> None:
        """Count a call against the time of the answers, and measure it where it read a prompt.

        ``slots``: all of the context. Answers with other adapters wait for a call as those in it do.
        """
        size = sum(len(share.tokens) + len(share.draft) for share in shares)
        if all(len(share.slot.pending) <= SHORT for share in shares):
            self._owed = max(-CREDIT, self._owed - max(seconds, LEAST_SECONDS))
        else:
            self.delay(slots, seconds)
        if any(len(share.slot.pending) > 1 for share in shares):
            self.note(size, seconds, shares[0].slot.adapters)

    def note(self, tokens: int, seconds: float, adapters: Active = ()) -> None:
        """Count a call that read a prompt. The time of a token grows with the prompt, so the latest calls count."""
        if tokens >= LEAST:
            self._seen.append((_numbers(adapters), seconds / tokens))

    def room(self, answers: int) -> int:
        """Tokens of the next call, with one of each answer: whole tiles, as long as the prompt continues."""
        return min(self._most, (self.length + answers) // TILE * TILE)

    @property
    def room_ahead(self) -> int:
        """Tokens of the next call for prompts alone that nobody waits for yet."""
        return min(self._most, self._within(GAP_AHEAD) // TILE * TILE)

    @property
    def length(self) -> int:
        """Tokens of the next piece, or a few more."""
        return self._within(GAP)

    def _within(self, gap: float) -> int:
        """Tokens that are read in so many seconds, within the bounds of a piece."""
        if not self._seen:
            return min(FIRST, self._most)
        own = [seconds for adapters, seconds in self._seen if adapters == self._adapters][-KEPT:]
        found = median(own) if own else UNKNOWN * max(seconds for _, seconds in self._seen)
        slow = max(found, gap / self._most)
        return min(self._most, max(LEAST, int(gap / slow)))


def _numbers(adapters: Active) -> tuple[int, ...]:
    """The adapters without their scales, which cost nothing and which clients may choose at will."""
    return tuple(number for number, _ in adapters)
