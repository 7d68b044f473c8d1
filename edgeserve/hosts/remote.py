"""An engine in a process of its own, with the steps and figures of any engine.

Cold means that the process is gone, so that every byte returns, whatever an allocator keeps. ``local`` is the same
engine in this process, which is never opened: it estimates, names voices, and says what can be saved while cold.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from edgeserve import logs
from edgeserve.engine import Cancel, Engine, Footprint, Rung, SpeechToText, TextToSpeech
from edgeserve.engine_abilities import RemotePart
from edgeserve.errors import EngineFailure, ShuttingDown
from edgeserve.hosts.abilities import Abilities
from edgeserve.hosts.crossing import sendable
from edgeserve.hosts.inbox import Over
from edgeserve.hosts.link import Link
from edgeserve.hosts.steps import WORKER
from edgeserve.messages import DetectRequest, Event, Request, SpeechChances
from edgeserve.processes import codec
from edgeserve.processes.child import Child
from edgeserve.processes.launcher import Launcher
from edgeserve.slots import SlotState

ENTRY, PREPARE = "edgeserve.hosts.worker_entry:main", "edgeserve.hosts.worker_entry:prepare"


class Prepared:
    """A request that the worker of ``link`` has prepared under ``number``, and keeps until it is run or forgotten."""

    def __init__(self, link: Link, number: int, prompt_tokens: int) -> None:
        self.link, self.number, self.prompt_tokens = link, number, prompt_tokens
        self.run = False

    def __del__(self) -> None:
        if not self.run:
            self.link.forget(self.number)


class RemoteEngine:
    """The host calls the steps from the thread that holds the engine. ``clock`` in seconds.

    ``may_start`` raises when the worker must not be started now; ``died`` gets the exit code of a worker that ended
    without having been asked to. ``explain`` makes the error of its end from these words.
    """

    def __init__(
        self,
        local: Engine,
        launcher: Launcher,
        *,
        may_start: Callable[[], None] = lambda: None,
        died: Callable[[int | None], None] = lambda code: None,
        explain: Callable[[str], EngineFailure] = EngineFailure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec = local.spec
        self.local = local
        self._able = Abilities.of(local)
        self._launcher = launcher
        self._may_start = may_start
        self._died = died
        self._explain = explain
        self._clock = clock
        self._link: Link | None = None
        self._model_prepared = not hasattr(sys.modules[type(local).__module__], "prepare")
        self._preparing: Link | None = None
        self._given_up = False
        self._shed: list[tuple[str, int]] = []
        self._limits: tuple[int, int, int | None] | None = None

    def abilities(self) -> Abilities:
        """The abilities of the engine; its worker does what takes one."""
        found = self._able
        return replace(
            found,
            thrifty=self if found.thrifty else None,
            limited=self if found.limited else None,
            preparing=self if found.preparing else None,
            contextual=self if found.contextual else None,
            slotted=self if found.slotted else None,
            detecting=self if found.detecting else None,
        )

    # Figures

    @property
    def link(self) -> Link | None:
        """The line to the worker; None while there is none, or once it has ended. Any thread."""
        link = self._link
        return link if link is not None and link.alive else None

    @property
    def rung(self) -> Rung:
        return Rung(link.state.rung) if (link := self.link) else Rung.COLD

    @property
    def slots(self) -> int:
        local = getattr(self.local, "slots", 1)
        return link.state.slots if (link := self.link) and link.state.rung else int(local)

    @property
    def starved(self) -> bool:
        return bool((link := self.link) and link.state.starved)

    @property
    def failed(self) -> bool:
        """The worker makes no more answers: it must be closed."""
        return self._link is not None and self._link.failed

    @property
    def context_tokens(self) -> int | None:
        return link.state.context_tokens if (link := self.link) else None

    def slot_states(self) -> tuple[SlotState, ...]:
        return link.state.slot_states if (link := self.link) else ()

    def estimate(self) -> Footprint:
        """The engine's own estimate, and its process."""
        found = self.local.estimate()
        return replace(found, private=found.private + WORKER)

    def footprint(self) -> Footprint:
        return link.state.footprint if (link := self.link) else Footprint()

    def savings(self) -> Mapping[str, int]:
        if (link := self.link) and link.state.rung:
            return link.state.savings
        return self._able.thrifty.savings() if self._able.thrifty else {}

    @property
    def remote_parts(self) -> tuple[RemotePart, ...]:
        return ()

    def check_nodes(self, make_way: Callable[[], None]) -> None:
        """As ``Host.check_nodes``."""

    def voices(self) -> tuple[str, ...]:
        return cast(TextToSpeech, self.local).voices()

    def languages(self) -> tuple[str, ...]:
        return cast(SpeechToText, self.local).languages()

    def prefetch_files(self) -> Iterable[Path]:
        prefetchable = self._able.prefetchable
        return prefetchable.prefetch_files() if prefetchable else self.spec.files.values()

    # Steps

    def open(self) -> None:
        """Start the worker, unless there is one."""
        if self.rung is Rung.COLD:
            self.close()  # what is left of one that died
            self._may_start()
            self._check_wanted()
            self._prepare_model()
            link = self._link = Link(self._launch(ENTRY), self.spec.name, self._died, self._clock, self._explain)
            try:
                self._check_wanted()
                for kind, amount in self._shed:
                    link.ask("shed", kind, amount)
                if self._limits:
                    link.ask("limit", *self._limits)
                link.ask("open")
            except BaseException:
                self.close()
                raise

    def give_up(self) -> None:
        """End a load under way by the end of its process, and start none any more. Any thread."""
        self._given_up = True
        for link in (self._preparing, self.link):
            if link is not None:
                link.abandon(_shutting_down())

    def _check_wanted(self) -> None:
        if self._given_up:
            raise _shutting_down()

    def _prepare_model(self) -> None:
        """Let a child prepare the model for this machine, once: a worker may not write beside its model."""
        if not self._model_prepared:
            link = self._preparing = Link(self._launch(PREPARE), self.spec.name, lambda code: None, self._clock)
            link.join()
            self._preparing, self._model_prepared = None, True
            self._check_wanted()

    def _launch(self, entry: str) -> Child:
        level = logging.getLogger("edgeserve").getEffectiveLevel()
        arguments = {"spec": codec.Writer().write(self.spec), "level": level}
        return self._launcher.launch(entry, arguments, self.spec.id)

    def heat(self) -> None:
        self._ask("heat")

    def park(self) -> None:
        self._ask("park")

    def close(self) -> None:
        """End the worker; every byte of it is free when this returns. Raises the error of the engine's own close."""
        link = self._link
        if link is not None:
            try:
                link.stop()
            finally:
                self._link = None

    def limit(self, memory: int, cache: int, wired: int | None) -> None:
        self._limits = (memory, cache, wired)
        if self.link:
            self._ask("limit", *self._limits)  # else ``open`` passes them on

    def shed(self, kind: str, amount: int) -> None:
        if self.rung is not Rung.HOT and kind != "prefix_cache" and self._able.thrifty:
            self._able.thrifty.shed(kind, amount)
            self._shed.append((kind, amount))
        if self.link:
            self._ask("shed", kind, amount)

    def keep(self, most: int) -> None:
        if link := self.link:
            link.keep(most)

    def restore(self) -> None:
        self._shed.clear()
        if self._able.thrifty:
            self._able.thrifty.restore()
        if self.link:
            self._ask("restore")

    def _ask(self, method: str, *arguments: object) -> object:
        link = self._link
        if link is None:
            raise EngineFailure(f"{self.spec.name} is cold; open it first")
        return link.ask(method, *arguments)

    # Answers

    def prepare(self, request: Request) -> Prepared:
        link = self.link
        if link is None:
            raise EngineFailure(f"{self.spec.name} is closed")
        return Prepared(link, *link.prepare(request))

    def run(
        self, request: Request, cancel: Cancel, prepared: object | None = None
    ) -> Generator[Event | None, None, None]:
        """Events of one answer; None each time that the next one has not come yet."""
        link = self._link
        if link is None:
            raise EngineFailure(f"{self.spec.name} is cold")
        found = prepared if isinstance(prepared, Prepared) and prepared.link is link else None
        with sendable(request) as crossing:
            inbox = link.begin(crossing, found.number if found else None, logs.request_id.get())
            if found:
                found.run = True  # from here on: the worker must forget what it was never told to run
            try:
                while not cancel.is_set():
                    yield link.next(inbox)
            except Over:
                return
            finally:
                link.end(inbox)

    @property
    def detects(self) -> bool:
        return self._able.detecting is not None

    def detect(self, request: DetectRequest) -> SpeechChances:
        if (link := self.link) is None:
            raise EngineFailure(f"{self.spec.name} is cold")
        return link.detect(request)

    def wait(self) -> None:
        """Wait for news from the worker, or for ``wake``."""
        if link := self._link:
            link.wait()

    def wake(self) -> None:
        """Any thread."""
        if link := self._link:
            link.wake()

    def idle_work(self) -> Iterator[None]:
        while self.rung is Rung.HOT and self._ask("idle"):
            yield


def _shutting_down() -> ShuttingDown:
    return ShuttingDown("the server is shutting down and loads nothing more", retry_after=5)
