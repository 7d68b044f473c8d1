"""The answers of one engine that are under way.

An answer pauses while its reader has no room for more. It pauses only behind an event, never in front of a token:
llama.cpp keeps the logits of the latest step alone, and the next step would replace those of the paused answer.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from edgeserve.clients import Idle
from edgeserve.errors import MemoryPressure
from edgeserve.hosts.run import Answer, Ended, Run
from edgeserve.messages import (
    DiarizeRequest,
    EmbedRequest,
    ReadEvent,
    RerankRequest,
    Rest,
    SpeakRequest,
    SpeechRequest,
    TranscribeRequest,
)
from edgeserve.residency import wakes
from edgeserve.residency.work import Admitted, Work

log = logging.getLogger("edgeserve.gate")

CHECK_EVERY = 16
"""Events between two checks of the memory pressure."""

LISTS = (EmbedRequest, RerankRequest)
ALONE = (*LISTS, SpeakRequest, DiarizeRequest, TranscribeRequest)
"""Requests whose answers may take an hour. They give others their turn behind each text, piece or window of sound."""
TURN = 2.0
"""Seconds that an answer has before it rests for another client's that does not fit beside it."""
MOST_BESIDE = 8
"""Answers of an engine beyond its slots, beside such answers. Half of them are for keys with none under way."""
MOST_KEPT = 256
"""Keys without an answer under way whose share of the time is remembered."""


class Runs:
    """``check`` raises MemoryPressure when memory is critical. ``clock`` in seconds.

    ``in_the_way``: whether requests to other engines wait for these answers. Then each rests: at its next ``Rest``, or
    behind its next text. So does, at its ``Rest``, one beside which another client's has no room. ``passes_all``: a
    ``Rest`` goes to the reader, which decides, and so does a ``ReadEvent``.

    The loop's thread alone changes the runs. Other threads may read ``stuck`` and ``slowest``.
    """

    passes_all = False

    def __init__(
        self, check: Callable[[], None], clock: Callable[[], float], in_the_way: Callable[[], bool] = lambda: False
    ) -> None:
        self._check = check
        self._clock = clock
        self._in_the_way = in_the_way
        self._runs: list[Run] = []
        self._turn: Run | None = None
        self._longest = self._least = self._began = 0.0
        """The longest of the latest steps, the least of ``_spent``, and that of the turn's key before the turn."""
        self._spent: dict[tuple[str, ...], float] = {}
        """Seconds of the engine that each key had, from the least of the others when it came or paused."""

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self._runs))

    def add(self, admitted: Admitted, answer: Answer) -> None:
        self._runs.append(Run(admitted, answer, self._longest))

    def advance(self) -> tuple[list[Ended], bool]:
        """Let every answer continue as far as it can. The failure of one answer ends that answer alone.

        Returns the answers that ended, and True when another answer needs a step.
        """
        ended: list[Ended] = []
        stepping = False
        for run in self:
            if not run.events:
                wakes.flush()  # a new answer may take its place for some milliseconds
            if self._may_go_on(run):
                end, steps = self._continue(run)
                ended += end
                stepping |= steps
        return ended, stepping

    def advance_one(self) -> list[Ended]:
        """Let an answer of the key that has had the least time continue; returns it if it has ended.

        Its turn lasts as long as the longest step of the others, so a short answer ends within its first turn. A
        cancelled answer comes first. The order is that of start-time fair queueing (Goyal, Vin, Cheng 1996).
        """
        able = [run for run in self if self._may_go_on(run)]
        if not able:
            return []
        spent = {run.key: max(self._spent.get(run.key, 0.0), self._least) for run in able}  # a pause saves up no time
        self._least = min(spent.values())
        # The time of a short answer that has ended counts on: one after the other would else be the newest each.
        kept = list(self._spent.items())[-MOST_KEPT:]
        self._spent = {key: had for key, had in kept if had > self._least} | spent
        run = self._turn or able[0]
        longest = max((one.step for one in able if one is not run), default=0.0)
        if run not in able or not 0 < spent[run.key] - self._began <= longest - run.step:
            age = {key: -number for number, key in enumerate(self._spent)}  # of equal keys, the newest one is next
            run = min(able, key=lambda one: (not one.work.cancel.is_set(), spent[one.key], age[one.key]))
            self._turn, self._began = run, spent[run.key]
        self._longest = max(one.step for one in able)
        self._runs.remove(run)
        self._runs.append(run)  # of one key, another one is next
        key, began = run.key, self._clock()
        ended, _ = self._continue(run)
        run.step = self._clock() - began
        self._spent[key] += run.step
        return ended

    def _continue(self, run: Run) -> tuple[list[Ended], bool]:
        """As ``advance``, for one answer."""
        if run.paused is not None and run.work.cancel.is_set():
            return [self._end(run)], False
        try:
            steps = run.work.context.run(self._emit, run)
            return ([self._end(run)], False) if run.work.rests else ([], steps)
        except StopIteration:
            return [self._end(run)], False
        except Exception as error:
            return [self._end(run, error)], False

    def end_all(self, error: Exception) -> list[Ended]:
        """End every answer with ``error``."""
        return [self._end(run, error) for run in self]

    @property
    def stuck(self) -> bool:
        """True when there are answers and every one waits for its reader."""
        runs = tuple(self._runs)
        return bool(runs) and all(run.blocked for run in runs)

    @property
    def paused(self) -> int:
        """Number of paused answers."""
        return sum(run.paused is not None for run in self._runs)

    def give_place(self, slots: int, beside: int) -> Idle | None:
        """Who may begin an answer in a batch, with none under way. Those of ``LISTS`` keep no place from it.

        ``beside``: answers that the engine makes beyond its ``slots``.
        """
        lists = sum(isinstance(run.work.request, LISTS) for run in self)
        return _newcomer((slots + beside + lists - len(self), beside), (slots + MOST_BESIDE - len(self), MOST_BESIDE))

    def give_turn(self, slots: int) -> Idle | None:
        """Who may begin an answer, with none under way, beside those of ``ALONE``, which take turns.

        More than ``slots`` of one client began while its others were paused. They keep no place from others.
        """
        alone = any(isinstance(run.work.request, ALONE) for run in self)
        taken = sum(min(slots, count) for count in Counter(run.work.place.groups for run in self).values())
        return _newcomer((slots + MOST_BESIDE - taken, MOST_BESIDE)) if alone else None

    def slowest(self, seconds: float) -> Work | None:
        """The answer that has waited longest for its reader, if it has waited for so many seconds. Any thread.

        One that has room again waits for the engine, not for its reader. One that is cut stays so until it has ended.
        """
        now = self._clock()
        # Each ``paused`` is read once: the loop's thread may resume an answer between two reads.
        paused = [(since, run.work) for run in self if (since := run.paused) is not None]
        waiting = [(since, work) for since, work in paused if work.cancel.is_set() or not work.room()]
        since, work = min(waiting, key=lambda one: one[0], default=(now, None))
        return work if now - since >= seconds else None

    def unread(self, seconds: float) -> tuple[Work, ...]:
        """The answers that have waited so many seconds for their readers. Any thread."""
        now, runs = self._clock(), tuple(self._runs)
        waiting = ((run, run.paused) for run in runs if run.blocked)
        return tuple(run.work for run, since in waiting if since is not None and now - since >= seconds)

    def all_unread(self, seconds: float) -> tuple[Work, ...]:
        """All answers, if each has waited so many seconds for its reader; else (). Any thread.

        Speech that may go on to its next rest leaves the memory there, and need not be cut for it.
        """
        count, found = len(self._runs), [work for work in self.unread(seconds) if not _may_rest(work)]
        return tuple(found) if len(found) == count else ()

    def _emit(self, run: Run) -> bool:
        """Pass events on until the answer needs a step (True), its reader has no room, or it rests (False)."""
        work = run.work
        if run.paused is not None:
            run.waited, run.paused = self._waited(run, run.paused), None
        while (event := next(run.answer)) is not None:
            if isinstance(event, ReadEvent | Rest) and not self.passes_all:
                work.told |= isinstance(event, ReadEvent)
                if self._is_awaited(run) and work.rest_behind(event, run.events):
                    return False
                continue
            work.tell(event)
            run.events += 1
            if isinstance(work.request, LISTS) and self._in_the_way() and work.rest_behind(event, run.events):
                return False
            if run.events % CHECK_EVERY == 0:
                self._relieve(run)
            if work.room():
                run.spent = False
            elif not self._hurries(run):
                run.paused = self._clock() - run.waited
                return False
        return True

    def _may_go_on(self, run: Run) -> bool:
        return not run.blocked or self._hurries(run)

    def _hurries(self, run: Run) -> bool:
        """Whether an answer goes on without room, as others wait for its memory: to its next rest, or to its end.

        One that does not rest does so once, until its reader has room. A reader that takes a little at a time could
        else hold it up for ever.
        """
        if run.spent:
            return False
        if run.work.spare():
            return self._is_awaited(run)
        run.spent = not isinstance(run.work.request, SpeechRequest)
        return False

    def _waited(self, run: Run, since: float) -> float:
        """Seconds that count for the next pause, behind one that began then.

        Where mailboxes are scarce, half of one may be read within the patience of others, time and again.
        """
        return self._clock() - since if run.spent and self._is_awaited(run) else 0.0

    def _is_awaited(self, run: Run) -> bool:
        """Whether others wait for the memory of an answer: other engines, or another client that has its turn next."""
        had_turn = self._clock() - run.admitted.started >= TURN
        return self._in_the_way() or (had_turn and run.work.gives_way(run.work))

    def _relieve(self, run: Run) -> None:
        """Check the pressure. At its worst the answer ends that ``_heaviest`` names; raises where that is this one."""
        try:
            self._check()
        except MemoryPressure as error:
            if (other := self._heaviest(run)) is run:
                raise
            other.work.abort(error)

    def _heaviest(self, run: Run) -> Run:
        """The longest answer of the client with most, of the key with most.

        Of equal clients, the one with most requests, those that wait included; then an unread answer.
        """
        held, asked = _count(one.work for one in self), _count(run.work.peers())
        able = [one for one in self if not one.work.cancel.is_set() or one is run]

        def weigh(one: Run) -> tuple[int, ...]:
            groups = one.work.place.groups
            return *map(held.__getitem__, groups), *map(asked.__getitem__, groups), one.paused is not None, one.events

        return max(reversed(able), key=weigh)

    def _end(self, run: Run, error: Exception | None = None) -> Ended:
        self._runs.remove(run)
        self._turn = None if run is self._turn else self._turn  # an answer that has ended keeps no memory
        try:
            run.answer.close()
        except Exception:
            log.exception("an answer could not be closed")
        finally:
            run.admitted.held.close()
        return Ended(run.admitted, error)


def _may_rest(work: Work) -> bool:
    return isinstance(work.request, SpeechRequest) and work.spare()


def _count(works: Iterable[Work]) -> Counter[tuple[str, ...]]:
    """The works of each group of clients."""
    return Counter(group for work in works for group in work.place.groups)


def _newcomer(*places: tuple[int, int]) -> Idle | None:
    """Who may take a place, of which so many are left, and so many beyond the slots: the last half is for keys."""
    if any(left <= 0 for left, _ in places):
        return None
    return Idle.KEY if any(left <= (beside + 1) // 2 for left, beside in places) else Idle.CLIENT
