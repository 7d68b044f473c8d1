"""Pulls that a server runs: few at a time, one a model, each shared by all who ask for that model."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable

from edgeserve.errors import (
    Busy,
    Cancelled,
    EdgeserveError,
    InUse,
    InvalidRequest,
    NotFound,
    ShuttingDown,
    StoreError,
)
from edgeserve.models import catalog
from edgeserve.models.pull import Pull
from edgeserve.models.sources.source import Progress
from edgeserve.models.store import Store
from edgeserve.models.wanted import Wanted, understand

log = logging.getLogger("edgeserve.pulls")

REMOTE = re.compile(r"hub:|https?://")
LOOK_SECONDS = 5.0
"""Time between two looks for pulls that do not move."""
PATHS = ("/", "./", "../", "~")
"""Beginnings of a source elsewhere."""


class Pulls:
    """Pulls into one store.

    Arguments:
        at_once  pulls that run at a time; the next ones wait in their order
        most     pulls that run or wait; Busy beyond
        kept     ended pulls that ``all`` shows
        clock    in seconds
    """

    def __init__(
        self,
        store: Store,
        *,
        at_once: int = 2,
        most: int = 16,
        kept: int = 16,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._at_once = at_once
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[Pull] = deque()
        self._running: dict[Pull, threading.Thread] = {}
        self._ended: deque[Pull] = deque(maxlen=kept)
        self._closed = False
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None
        self._stuck: dict[str, threading.Thread] = {}
        """Threads of pulls that were given up, by the model whose folder they still hold."""

    def start(self, what: str) -> Pull:
        """The pull of a model: the one under way, else a new one. The caller has a ``hold`` on it.

        ``what``: a catalogue name, ``hub:org/repo[/file][@revision]`` or a URL; no path, which a client could use to
        look around on this machine. Raises NotFound, InvalidRequest, InUse, StoreError and its kinds, and Busy.
        """
        wanted = _elsewhere(what)
        if (shared := self._shared(wanted, what)) is not None:
            return shared
        self._store.ready(what)  # reads the disk, so not under the lock
        with self._lock:
            if self._closed:
                raise ShuttingDown("the server is shutting down and pulls nothing more", retry_after=5)
            if (shared := self._held(wanted, what)) is not None:
                return shared
            self._drop_cancelled()
            self._stuck = {name: thread for name, thread in self._stuck.items() if thread.is_alive()}
            if wanted.name in self._stuck:
                text = f"an earlier pull of {wanted.name} was given up, and its connection is not closed yet"
                raise InUse(f"{text}; try again later, or restart the server")
            if len(self._running) + len(self._waiting) + len(self._stuck) >= self._most:
                raise Busy(f"{self._most} pulls run or wait, which is the limit; wait for one, or cancel one")
            pull = Pull(wanted.name, what, str(next(iter(wanted.sources), "")), self._clock)
            pull.hold()
            self._waiting.append(pull)
            self._fill()
        return pull

    def find(self, name: str) -> Pull:
        """The pull of this name, under way or lately ended. Raises NotFound."""
        for pull in self.all():
            if name.lower() in (pull.name.lower(), pull.what.lower()):
                return pull
        raise NotFound(f"no pull of {name[:200]!r} is under way; GET /admin/pulls lists the pulls", param="model")

    def all(self) -> tuple[Pull, ...]:
        """Running pulls, then waiting ones, then those that have ended, the latest first."""
        with self._lock:
            self._drop_cancelled()
            return (*self._running, *self._waiting, *reversed(self._ended))

    @property
    def running(self) -> tuple[Pull, ...]:
        """Pulls with a thread; a cancelled one keeps its thread until the next report."""
        with self._lock:
            return tuple(self._running)

    def stop(self, seconds: float = 2.0) -> None:
        """Cancel all pulls. Waits for their threads until the time is over; their parts stay for a later pull."""
        self._over.set()
        with self._lock:
            self._closed = True
            pulls = [*self._running, *self._waiting]
            threads = list(self._running.values())
        for pull in pulls:
            pull.cancel()
        until = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def look(self) -> None:
        """Give up pulls whose source sends next to nothing, so that others have their places."""
        for pull in [one for one in self.running if one.give_up()]:
            with self._lock:
                thread = self._running.pop(pull, None)
                if thread is not None:  # else it ended meanwhile
                    log.warning("%s: the pull is given up: its source sends next to nothing", pull.name)
                    self._stuck[pull.name] = thread
                    self._ended.append(pull)
                self._fill()

    def _watch(self) -> None:
        """Look while pulls run."""
        while not self._over.wait(LOOK_SECONDS):
            self.look()
            with self._lock:
                if not self._running:
                    self._watcher = None
                    return

    def _shared(self, wanted: Wanted, what: str) -> Pull | None:
        with self._lock:
            return self._held(wanted, what)

    def _held(self, wanted: Wanted, what: str) -> Pull | None:
        """The pull of this model that is under way, held once more. Raises InUse for another source of the name.

        The caller holds the lock.
        """
        for pull in (*self._running, *self._waiting):
            if pull.name != wanted.name or pull.state.over:
                continue
            if not wanted.in_catalogue and pull.what != what:
                raise InUse(f"{pull.name} is being pulled from {pull.source}: wait for its end, or cancel it first")
            if pull.hold():  # the last client may have let go since
                return pull
        return None

    def _fill(self) -> None:
        """Start waiting pulls while there is room. The caller holds the lock."""
        self._drop_cancelled()
        while self._waiting and len(self._running) < self._at_once:
            pull = self._waiting.popleft()
            # A daemon: a source that is silent must not hold up the end of the process.
            thread = threading.Thread(target=self._run, args=[pull], name=f"edgeserve pull {pull.name}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system gives no thread now
                pull.end(None, Busy(f"no thread can be started for the pull: {error}; try again", retry_after=5))
                self._ended.append(pull)
                continue
            self._running[pull] = thread
        if self._running and self._watcher is None and not self._closed:
            watcher = threading.Thread(target=self._watch, name="edgeserve pulls", daemon=True)
            try:
                watcher.start()
            except RuntimeError as error:  # the next pull tries again
                log.warning("no thread can be started to watch the pulls: %s", error)
            else:
                self._watcher = watcher

    def _drop_cancelled(self) -> None:
        """Take pulls that were cancelled before they began out of the queue. The caller holds the lock."""
        gone = [pull for pull in self._waiting if pull.cancelled]
        self._ended.extend(gone)
        self._waiting = deque(pull for pull in self._waiting if pull not in gone)

    def _run(self, pull: Pull) -> None:
        try:
            pull.progressed(Progress(pull.name, "download", 0, 0))
            stored = self._store.pull(pull.what, progress=pull.progressed)
            log.info("%s: pulled, %d MB", stored.name, stored.size_bytes >> 20)
            pull.end(stored)
        except Cancelled:
            log.info("%s: the pull was cancelled", pull.name)
        except EdgeserveError as error:
            log.warning("%s: the pull failed: %s", pull.name, error.message)
            pull.end(None, error)
        except Exception as error:
            log.exception("%s: the pull failed", pull.name)
            pull.end(None, StoreError(f"{pull.name} could not be pulled: {type(error).__name__}; see the server's log"))
        finally:
            with self._lock:
                if self._running.pop(pull, None) is not None:  # else it was given up
                    self._ended.append(pull)
                self._fill()


def _elsewhere(what: str) -> Wanted:
    """The model, which is no file of this machine. Raises NotFound and InvalidRequest."""
    if not REMOTE.match(what):
        if what.startswith(PATHS):
            text = f"model = {what[:200]!r}: a server pulls names of the catalogue, hub: sources and URLs, never a path"
            raise InvalidRequest(text, param="model")
        catalog.find(what)  # NotFound, with similar names
    try:
        return understand(what, offline=True)
    except StoreError as error:
        raise InvalidRequest(error.message, param="model") from None
