"""One pull under way: its progress, the ones who follow it, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.errors import Cancelled, EdgeserveError, SourceUnavailable
from edgeserve.models.pace import WINDOW_SECONDS, Pace
from edgeserve.models.sources.source import Progress
from edgeserve.models.stored import StoredModel

Stage = Literal["queued", "wait", "download", "verify", "convert", "prepare", "success", "failed", "cancelled"]
"""Stages of ``Progress``, the time before them, and the three ends."""

ENDS: tuple[Stage, ...] = ("success", "failed", "cancelled")
SHOWN_SECONDS = 0.2
"""Least time between two changes that are shown within one stage: a fast disk reports a thousand a second."""
LET_GO_SECONDS = 30.0
"""Seconds that a cancelled pull keeps its place while its thread waits for the source."""


@dataclass(frozen=True, slots=True)
class PullState:
    """The progress of a pull.

    Fields:
        part    the model that is fetched now: the pulled one, or a companion
        done    bytes done, of the stages "download" and "verify"; percent of "convert"; steps of "prepare"
        total   the same for the whole stage; 0 when unknown
        stored  the model, after success
        error   the reason of a failure
    """

    stage: Stage = "queued"
    part: str = ""
    done: int = 0
    total: int = 0
    stored: StoredModel | None = None
    error: EdgeserveError | None = None

    @property
    def over(self) -> bool:
        return self.stage in ENDS


class Pull:
    """The pull of one model, followed and held by any number of clients. Any thread.

    Arguments:
        name    name of the model in the store
        what    the request, as ``Store.pull`` takes it
        source  the first source, without secrets
        clock   in seconds
    """

    def __init__(self, name: str, what: str, source: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.what = what
        self.source = source
        self._clock = clock
        self._lock = threading.Condition()
        self._state = PullState(part=name)
        self._shown_at = clock()
        self._followers: dict[object, Callable[[], None]] = {}
        self._holders = 0
        self._cancelled = threading.Event()
        self._cancelled_at = 0.0
        self._pace = Pace(clock)

    @property
    def state(self) -> PullState:
        return self._state

    def follow(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed`` after each change of the state, on the thread of the pull. Returns the end of that."""
        key = object()
        with self._lock:
            self._followers[key] = changed

        def end() -> None:
            with self._lock:
                self._followers.pop(key, None)

        return end

    def hold(self) -> bool:
        """Count a client that wants the model. The pull ends when the last one has let go. False where it is over."""
        with self._lock:
            self._holders += not self._state.over
            return not self._state.over

    def let_go(self) -> None:
        """The end of one ``hold``; the last one cancels the pull."""
        with self._lock:
            self._holders -= 1
            cancelled = not self._holders and self._cancel()
        if cancelled:
            self._tell()

    def cancel(self) -> bool:
        """End the pull; parts that a later pull continues stay. False where it is over, or past its last download.

        Followers know at once. The thread of the pull ends at its next report, which a slow source puts off.
        """
        with self._lock:
            cancelled = self._cancel()
        if cancelled:
            self._tell()
        return cancelled

    def _cancel(self) -> bool:
        """As ``cancel``, but followers hear nothing. The caller holds the lock."""
        if self._state.over or self._state.stage == "prepare":
            return False
        self._cancelled.set()
        self._cancelled_at = self._clock()
        self._state = replace(self._state, stage="cancelled")
        return True

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait until the pull is over; False when it is not."""
        with self._lock:
            return self._lock.wait_for(lambda: self._state.over, seconds)

    def give_up(self) -> bool:
        """End a pull whose source sends next to nothing; its thread ends at its next report. False where it is well.

        True also for a pull that was cancelled ``LET_GO_SECONDS`` ago: its thread still waits for the source.
        """
        with self._lock:
            if self._state.stage == "cancelled":
                return self._clock() - self._cancelled_at >= LET_GO_SECONDS
            if self._state.stage != "download" or not self._pace.stalled:
                return False
            text = f"{self.source or self.what} sent {self._pace.moved} bytes in {WINDOW_SECONDS:g} s, which is no pace"
            self._cancelled.set()
        self.end(None, SourceUnavailable(f"{text}; pull again to go on where it stopped, or from another source"))
        return True

    # The thread of the pull

    def progressed(self, progress: Progress) -> None:
        """Note progress. Raises Cancelled, which ends the work of the store."""
        with self._lock:
            if self.cancelled:
                raise Cancelled(f"the pull of {self.name} was cancelled")
            before, now = self._state, self._clock()
            self._pace.note((progress.stage, progress.model), progress.done)
            same = (before.stage, before.part) == (progress.stage, progress.model)
            self._state = replace(
                before, stage=progress.stage, part=progress.model, done=progress.done, total=progress.total
            )
            if same and now - self._shown_at < SHOWN_SECONDS:
                return
            self._shown_at = now
        self._tell()

    def end(self, stored: StoredModel | None, error: EdgeserveError | None = None) -> None:
        """The last change, unless the pull was cancelled."""
        with self._lock:
            if self._state.over:
                return
            stage: Stage = "success" if stored is not None else "failed"
            self._state = replace(self._state, stage=stage, part=self.name, stored=stored, error=error)
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            self._lock.notify_all()
            followers = list(self._followers.values())
        for changed in followers:
            changed()
