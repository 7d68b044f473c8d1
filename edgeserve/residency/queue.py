"""The unfinished work of one gate: arriving, then waiting for its turn, then under way. Clients take turns at both."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator

from edgeserve.clients import Groups, Idle
from edgeserve.messages import EmbedRequest, RerankRequest
from edgeserve.residency.prompts import Reading, size_of
from edgeserve.residency.rounds import Rounds, sacrifice
from edgeserve.residency.work import Work

WHOLE_SECONDS = 30.0
"""Seconds for which a prompt waits for the whole context while other answers are under way. Then it is refused."""
CLOSED_SECONDS = WHOLE_SECONDS / 3
"""Seconds in which nobody begins beside these answers, so that they end, once the prompt has waited as long."""


class Queue:
    """``state``, the gate's lock, guards the queue. Every method takes it; the calling thread may hold it already.

    ``slots``: answers that the engine makes at a time.
    """

    def __init__(self, state: threading.Condition, slots: Callable[[], int] = lambda: 1) -> None:
        self._state = state
        self._slots = slots
        self._open: dict[Work, None] = {}
        self._arriving: Rounds[Work] = Rounds()
        self._reading: Rounds[Work] = Rounds()
        """Long texts to read, which are prepared beside all others."""
        self._waiting: Rounds[Work] = Rounds()
        self._whole: Rounds[Work] = Rounds()
        """Prompts that need the whole context of an engine that does with less. Others begin before them."""
        self._closed = -math.inf
        """The time at which nobody more began, for such a prompt."""
        self._resting: Rounds[Work] = Rounds()
        """Answers of which a part has been given. They begin before all others, but for those that ``_goes_before``."""
        self._kept_out: Work | None = None
        """The latest work that did not begin beside the answers under way, if it has room in the place of one."""
        self._numbers = itertools.count(1)
        self._turns: dict[tuple[str, ...], int] = {}
        """The end of the latest turn of each client and key while answers rest. It counts as ``Work.number`` does."""

    def __iter__(self) -> Iterator[Work]:
        """All work that has not ended."""
        with self._state:
            return iter(tuple(self._open))

    def waits(self) -> bool:
        """True when work waits for its turn: no answer at rest that is not read, and no prompt behind its client's."""
        with self._state:
            return bool(self._whole) or any(map(self._able, self._waiting)) or any(map(_is_read, self._resting))

    @property
    def resting(self) -> list[Work]:
        """The answers at rest."""
        with self._state:
            return list(self._resting)

    def exceeds(self, clients: Iterable[Groups]) -> bool:
        """Whether one of the clients has more answers under way than the engine makes at a time."""
        with self._state:
            return any(self._waiting.taken(groups) > self._slots() for groups in clients)

    def unread(self, rested: float) -> list[Work]:
        """The answers at rest since before a time, whose readers have no room."""
        with self._state:
            return [work for work in self._resting if work.rested <= rested and not _is_read(work)]

    def claimed(self, work: Work) -> bool:
        """Whether work that waits may take the place of ``work``, which is under way: see ``Rounds.claimed``."""
        with self._state:
            waiting = *filter(self._able, self._waiting), *self._whole, *filter(_is_read, self._resting)
            return self._waiting.claimed(work, waiting)

    def gives_way(self, work: Work) -> bool:
        """Whether another client's work waits while memory lets none begin beside ``work``, which is under way.

        The next may be its own client's. With no rest, the other would wait for the end of both.
        """
        with self._state:
            waiting = [*self._waiting, *filter(_is_read, self._resting)]
            return self._kept_out in waiting and any(one.place.groups != work.place.groups for one in waiting)

    def add(self, work: Work) -> None:
        with self._state:
            self._open[work] = None
            (self._reading if work.is_long_text else self._arriving).add(work)

    def arriving(self, long_texts: bool = False) -> Work | None:
        """The work to prepare next: of requests for a long text as tokens, or of all others. It stays in the queue."""
        with self._state:
            return (self._reading if long_texts else self._arriving).next()

    def arrive(self, work: Work) -> bool:
        """Let prepared work wait for its turn. False when it was withdrawn meanwhile."""
        with self._state:
            if not (self._arriving.remove(work, turn=True) or self._reading.remove(work, turn=True)):
                return False
            work.number, work.prompt = next(self._numbers), size_of(work)
            (self._whole if work.whole else self._waiting).add(work)
            return True

    def take_whole(self, newcomer: Idle | None = None) -> Work | None:
        """As ``take``, of the work that needs the whole context."""
        with self._state:
            work = self._whole.next()
            if work is None or not (newcomer is None or self._waiting.is_idle(work.place.groups, newcomer)):
                return None
            self._whole.remove(work)
            self._waiting.begin(work)
            return self._begun(work)

    def rejoin(self) -> None:
        """One has begun, with the whole context: the others that waited for it take turns with all again."""
        with self._state:
            for work in self._whole:
                self._whole.remove(work)
                self._waiting.add(work)
                work.patience = None

    def impatient(self, now: float) -> Iterator[Work]:
        """Take out the work that has waited ``WHOLE_SECONDS`` for the whole context beside others' answers."""
        with self._state:
            for work in self._whole:
                work.patience = work.patience or now + WHOLE_SECONDS
                if now >= work.patience and self._whole.remove(work, turn=True):
                    yield work

    def closed(self, now: float) -> bool:
        """Whether nobody begins beside the answers under way, for a prompt that has waited for their end.

        Not for one whose key has an answer under way itself.
        """
        with self._state:
            due = any(
                work.patience is not None
                and now >= work.patience - WHOLE_SECONDS + CLOSED_SECONDS
                and self._waiting.is_idle(work.place.groups, Idle.KEY)
                for work in self._whole
            )
            if due and now >= self._closed + WHOLE_SECONDS:
                self._closed = now
            return due and now < self._closed + CLOSED_SECONDS

    def take(self, newcomer: Idle | None = None) -> Work | None:
        """Take the work whose turn it is, as ``Rounds.take`` with ``newcomer`` as ``idle``. None without any."""
        with self._state:
            # The slots of a batch are shared out. A single place changes hands: an answer that its reader pauses takes
            # none, and must not delay the next one of its client.
            self._waiting.by_count = self._slots() > 1
            resting = self._resting.next(able=_is_read)
            able = self._able
            if resting is not None and not self._goes_before(resting, self._waiting.next(idle=newcomer, able=able)):
                self._resting.pick(resting)
                self._waiting.begin(resting)
                return resting
            work = self._waiting.take(idle=newcomer, able=able)
            return work and self._begun(work)

    @property
    def _able(self) -> Callable[[Work], bool]:
        return Reading(self._waiting.under_way).leaves_turn

    def _goes_before(self, resting: Work, other: Work | None) -> bool:
        """Whether work of another client has its turn before an answer goes on: it would else wait for all its parts.

        It waited as the latest turn of the answer's client ended, and its client has had none since. Clients with one
        key share these turns. A list goes on first: what is left of it needs the context that its engine had, and comes
        back with for it.
        """
        if other is None or isinstance(resting.request, EmbedRequest | RerankRequest):
            return False
        for ours, theirs in zip(resting.place.groups, other.place.groups, strict=True):
            if ours != theirs:
                return max(self._turns.get(theirs, 0), other.number) < self._turns.get(ours, 0)
        return False

    def _had_turn(self, work: Work) -> None:
        number, here = next(self._numbers), {group for one in self._open for group in one.place.groups}
        self._turns = {group: turn for group, turn in self._turns.items() if group in here}
        self._turns |= dict.fromkeys(work.place.groups, number)

    @staticmethod
    def _begun(work: Work) -> Work:
        if not work.resumed:
            work.place.begun += 1
            work.place.running += 1
        return work

    def put_back(self, work: Work) -> None:
        """Make work that was taken the next again."""
        with self._state:
            if not work.resumed:
                work.place.begun -= 1
                work.place.running -= 1
            self._waiting.put_back(work)
            self._kept_out = work if work.kept_out else None
            if work.whole or work.resumed:
                self._waiting.remove(work)
            if work.resumed:
                self._resting.put_back(work)
            elif work.whole:
                self._whole.add(work)

    def withdraw(self, work: Work) -> bool:
        """Take work out before its turn. False when it is under way or has ended."""
        with self._state:
            # Work that is cancelled as it is prepared has had its turn there: the next is another client's.
            lines = self._arriving, self._reading
            return (
                any(one.remove(work, turn=True) for one in lines)
                or self._waiting.remove(work)
                or self._whole.remove(work)
                or self._resting.remove(work)
            )

    def withdraw_last(self, clients: Iterable[Groups]) -> Work | None:
        """Take out the last work of the first client that has a request with no answer under way."""
        with self._state:
            for groups in clients:
                lines = self._arriving, self._reading, self._waiting, self._whole
                found = [work for line in lines if (work := line.last(groups)) is not None]
                if found:
                    last = max(found, key=sacrifice)
                    self.withdraw(last)
                    return last
            return None

    def wait_again(self, work: Work, error: Exception | None) -> bool:
        """Let work under way wait once more, where it rests, or ``error`` is that it needs the whole context."""
        with self._state:
            if work.cancel.is_set():
                return False
            if work.rests:
                work.rests = False
                self._waiting.end(work)
                self._rest(work)
                self._had_turn(work)
                return True
            if not work.ask_for_whole(error) or not self._waiting.end(work):
                return False
            if work.resumed:  # others have had a smaller context meanwhile
                self._rest(work)
                return True
            work.place.begun -= 1
            work.place.running -= 1
            self._whole.add(work)
            return True

    def _rest(self, work: Work) -> None:
        self._resting.end(work)
        self._resting.add(work)

    def end(self, work: Work) -> bool:
        """Forget work that has ended. False when it was forgotten before."""
        with self._state:
            if work not in self._open:
                return False
            del self._open[work]
            self._kept_out = None if self._kept_out is work else self._kept_out
            self._resting.end(work)
            if (under_way := self._waiting.end(work)) and self._resting:
                self._had_turn(work)
            if under_way or work.resumed:
                work.place.running -= 1
            return True


def _is_read(work: Work) -> bool:
    return work.room()
