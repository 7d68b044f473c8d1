"""The memory feed of the running server, followed on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from edgeserve.commands.remote import Server
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError

PATH = "/memory/feed?past=0"
AGAIN_SECONDS = 1.0
"""Pause before a feed that ended is asked for again."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """The latest sample by the names of its columns, the rows of the models at the time ``at``, and the pulls."""

    sample: Row
    models: Sequence[Row]
    at: float
    pulls: Sequence[Row]

    def aged(self, now: float) -> Sequence[Row]:
        """The models as they stand ``now``: the feed sends them again only after a change."""
        return [{**one, "idle_seconds": one["idle_seconds"] + max(0.0, now - self.at)} for one in self.models]


def follow(one: Server, clock: Callable[[], float] = time.monotonic) -> Generator[Shown, None, None]:
    """The state after each sample. Raises EdgeserveError when the server is gone or refuses."""
    columns: Sequence[str] = ()
    models: Sequence[Row] | None = None
    sample: Row = {}
    levels: Sequence[str] = ()
    at = 0.0
    for event in one.events("GET", PATH):
        if event["type"] == "start":
            columns, levels = event["sample"], event["pressure"]
        elif event["type"] == "samples":
            sample = dict(zip(columns, event["samples"][-1], strict=False))
            sample["pressure"] = levels[sample["pressure"]]
        elif event["type"] == "models":
            models, at = event["models"], clock()
        if sample and models is not None and event["type"] in ("samples", "models"):
            yield Shown(sample, models, at, one.ask("GET", "/admin/pulls")["pulls"])


class Follower:
    """Follows the feed on a thread, and asks for it again when it ends. ``first``: what there is to show at once."""

    def __init__(self, one: Server, first: Shown) -> None:
        self._one = one
        self._latest: Shown | EdgeserveError = first
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._follow, name="edgeserve feed", daemon=True).start()

    def stop(self) -> None:
        """Ask for no further feed. Never waits; the one under way ends with the process."""
        self._stopped.set()

    def latest(self) -> Shown:
        """Never waits. Raises the error of a server that is gone."""
        if isinstance(self._latest, EdgeserveError):
            raise self._latest
        return self._latest

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                for shown in follow(self._one):
                    self._latest = shown
                    if self._stopped.is_set():
                        return
            except EdgeserveError as error:
                self._latest = error
            self._stopped.wait(AGAIN_SECONDS)
