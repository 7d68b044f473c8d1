"""Measures the forms of models while nobody uses the server, one model at a time, in a process of lowest priority.

A request ends the process at once. So its time and its memory are there when the request needs them.
"""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from edgeserve.engine import ModelSpec
from edgeserve.errors import EdgeserveError
from edgeserve.fit import tuned
from edgeserve.fit.tuned import Tuned
from edgeserve.models.stored import StoredModel
from edgeserve.system import power
from edgeserve.units import MB

log = logging.getLogger("edgeserve.fit")

FIRST_WAIT, LONGEST_WAIT = 180.0, 86_400.0
"""Seconds without a request before a measurement. Each that is given up doubles the time for the next one."""
COPIES, BESIDE = 2, 512 * MB
"""Memory that a measurement takes: the mapped weights and a reordered copy of them; context, buffers and Python."""

Run = Callable[[Sequence[str]], AbstractContextManager[Iterator[str]]]
Measure = Callable[[StoredModel, Run, Callable[[], bool]], Tuned | None]


def measure(model: StoredModel, run: Run, wanted: Callable[[], bool]) -> Tuned | None:
    from edgeserve.fit import tuning  # an idle server does not need it

    return tuning.measure(model, run, wanted=wanted)


class IdleTuning:
    """``models`` of now. ``room``: bytes that a model may take. Any thread.

    ``measure`` blocks for minutes; None when it is not wanted any more.
    """

    def __init__(
        self,
        models: Callable[[], Iterable[ModelSpec]],
        room: Callable[[ModelSpec], int],
        on_battery: Callable[[], bool] = power.on_battery,
        measure: Measure = measure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models, self._room = models, room
        self._on_battery, self._measure = on_battery, measure
        self._clock = clock
        self._asked = clock()
        self._wait = FIRST_WAIT
        self._failed: set[Path] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._looked = False

    def look(self) -> None:
        """Begin a measurement if it is time, and the last one is over. Never waits."""
        if self._looked or self._clock() - self._asked < self._wait or self.running:
            return
        with self._lock:
            self._looked = True  # until the next request: looking at all records takes milliseconds
            self._stopped.clear()
        self._thread = threading.Thread(target=self._work, name="edgeserve-tuning", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """A request has come: give up what is under way. Never waits."""
        with self._lock:
            self._asked, self._looked = self._clock(), False
            self._stopped.set()
            if self._process is not None:
                self._process.kill()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _work(self) -> None:
        """Measure every model that has no record and enough room, one after the other."""
        from edgeserve.fit import tuning

        for spec in self._models():
            path, model = spec.files.get(tuned.ROLE), spec.files.get("model")
            if self._stopped.is_set() or self._on_battery():
                return
            if path is None or model is None or path in self._failed or not model.is_file():
                continue
            if tuned.read(path, model) is not None:
                continue
            stored = StoredModel(path.stem, spec.job, spec.engine, {"model": model}, model.stat().st_size)
            if tuning.suits(stored) and self._room(spec) >= COPIES * stored.size_bytes + BESIDE:
                self._try(stored, path)

    def _try(self, model: StoredModel, path: Path) -> None:
        log.info("%s: nobody uses the server, so its fastest settings are measured", model.name)
        try:
            found = self._measure(model, self._run, lambda: not self._stopped.is_set())
            if found is not None and found.others <= tuned.BUSY:
                tuned.keep(path, found)
                log.info("%s: %s are the fastest settings here", model.name, tuned.words(found.best))
                return
        except (EdgeserveError, OSError) as error:
            if not self._stopped.is_set():
                self._failed.add(path)
                log.warning("%s is not measured again: %s", model.name, error)
                return
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        why = "a request came" if self._stopped.is_set() else "other programs are busy"
        log.info("%s: %s; the next measurement waits for %d idle minutes", model.name, why, self._wait / 60)

    @contextmanager
    def _run(self, command: Sequence[str]) -> Iterator[Iterator[str]]:
        from edgeserve.fit import tuning

        with tuning.run([*command, tuned.IDLE], self._hold) as lines:
            try:
                yield lines
            finally:
                self._hold(None)

    def _hold(self, process: subprocess.Popen[str] | None) -> None:
        """Keep the process for ``stop``; end it if that has come already."""
        with self._lock:
            self._process = process
            if process is not None and self._stopped.is_set():
                process.kill()
