"""The border between a gate and the engine behind it.

    Gate ── Host ──> moves the engine, and makes answers on a loop of its own
    Host ── Scheduler ──> the gate's turns: the work that begins next, and its end
    Host ── Pressure ──> the governor: the limits of a runtime, and the end of an answer when memory is critical

A host does not hand out its engine: only requests, events and figures cross this border.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from edgeserve.clients import Idle
from edgeserve.engine import Footprint, ModelSpec, Rung
from edgeserve.engine_abilities import RemotePart
from edgeserve.memory.metal import MetalLimits
from edgeserve.messages import DetectRequest, Request, SpeechChances
from edgeserve.residency.work import Admitted, Work
from edgeserve.slots import SlotState

FOREVER = -1.0
"""Seconds to wait without a limit."""
PATIENCE = 10.0
"""Seconds that a paused answer keeps its place from others."""
LONG_PATIENCE = 15.0
"""Seconds that paused answers keep the memory of their engine from other engines.

A listener who plays speech as it comes reads half of a mailbox, which is 8 s at most, before the answer continues."""


class Pressure(Protocol):
    """Memory pressure, as a host asks about it; the governor answers. Any thread."""

    def check(self) -> None:
        """Called between the events of an answer. Raises MemoryPressure when memory is critical."""
        ...

    def limits(self) -> MetalLimits | None:
        """Limits for a runtime that takes some; None for no limit."""
        ...

    def room(self, spec: ModelSpec) -> int:
        """Bytes that an engine may take when all others that have no work have left."""
        ...

    def in_the_way(self, spec: ModelSpec) -> bool:
        """Whether requests to other engines wait for this one's answers, its hot time over. Reads no memory."""
        ...

    def optional_memory(self) -> AbstractContextManager[bool]:
        """Brackets idle work that takes memory; False when the host must leave it off."""
        ...

    def opening(self, spec: ModelSpec) -> AbstractContextManager[None]:
        """Brackets the way of an engine from cold to warm without a reservation, which may measure requests too."""
        ...

    def ended(self, spec: ModelSpec, code: int | None) -> None:
        """The process of an engine has ended unasked. ``code``: its exit code, negative for a signal."""
        ...

    def outgrew(self, spec: ModelSpec) -> None:
        """The system killed the process of an engine: most likely it took more memory than anybody expected."""
        ...


class Scheduler(Protocol):
    """The turns of a gate, as its host sees them."""

    def arriving(self, long_texts: bool = False) -> Work | None:
        """The work to prepare next; it stays in the queue until ``arrive`` or ``refuse``.

        ``long_texts``: the next of those with ``Work.is_long_text``, instead of all others.
        """
        ...

    def arrive(self, work: Work) -> bool:
        """Let prepared work wait for its turn. False when it was cancelled meanwhile."""
        ...

    def refuse(self, work: Work, error: Exception) -> None:
        """End work whose preparation failed."""
        ...

    def waits(self) -> bool:
        """True when work waits for its turn."""
        ...

    def admit(self, beside: bool, newcomer: Idle | None = None) -> Admitted | None:
        """The next work, with its memory reserved and the engine hot; on the host's thread, which holds the engine.

        ``beside``: other answers are under way, so this never waits for memory. ``newcomer``: only the work of a
        client, or of a key, with none under way. None when no such work waits, or when memory does not let it begin
        beside the others. Work that must not begin ends here with its error.
        """
        ...

    def finish(self, admitted: Admitted, error: Exception | None) -> None:
        """End work that was admitted. ``error`` is None when it ended well, or was cancelled."""
        ...

    def cut_slowest(self) -> bool:
        """Cancel the answer that has waited longest for its reader, if it has waited for too long."""
        ...

    def cut_for_waiting(self) -> bool:
        """As ``cut_slowest`` where work waits: no answer of a client with fewer under way than all that wait."""
        ...

    def went_idle(self) -> None:
        """Called when the host has made its last answer and no longer holds the engine."""
        ...


class Host(Protocol):
    """One engine, the lock that guards it, and the loop that makes its answers.

    ``climb``, ``step_down``, ``shed``, ``restore`` and ``close`` require that the calling thread holds the engine.
    Everything else: any thread.
    """

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def rung(self) -> Rung: ...

    @property
    def pid(self) -> int | None: ...  # as ``Resident.pid``

    @property
    def slots(self) -> int:
        """Answers that the engine makes at a time."""
        ...

    @property
    def stuck(self) -> bool:
        """True when answers are under way and every one waits for its reader."""
        ...

    @property
    def loading(self) -> bool:
        """Whether the engine is on its way up. Any thread."""
        ...

    def give_up(self) -> None:
        """End a load under way with an error where that can be done, and begin none any more: the server ends.

        Never waits for it. Any thread."""
        ...

    @property
    def rounds(self) -> int:
        """Steps that the loop has taken; the same number later means that no answer has continued."""
        ...

    @property
    def healthy(self) -> bool:
        """False once a thread of the host has ended without having been asked to."""
        ...

    @property
    def report(self) -> Mapping[str, object]:
        """The home of the engine, for the health check: ``isolation``, and more about a process of its own."""
        ...

    # Figures and facts

    def estimate(self) -> Footprint:
        """As ``Engine.estimate``."""
        ...

    def footprint(self) -> Footprint:
        """As ``Engine.footprint``."""
        ...

    def savings(self) -> Mapping[str, int]:
        """As ``Thrifty.savings``; empty for an engine that can save nothing."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """As ``Contextual.context_tokens``; None for an engine without a context."""
        ...

    @property
    def remote_parts(self) -> tuple[RemotePart, ...]:
        """As ``Spread.remote_parts``; empty for a model that lies on this machine alone."""
        ...

    def slot_states(self) -> tuple[SlotState, ...]:
        """As ``Slotted.slot_states``; empty for an engine that has none to look at."""
        ...

    def voices(self) -> tuple[str, ...]:
        """As ``TextToSpeech.voices``. Only for such an engine."""
        ...

    def languages(self) -> tuple[str, ...]:
        """As ``SpeechToText.languages``. Only for such an engine."""
        ...

    def prefetch_files(self) -> Iterable[Path]:
        """Files that the way up to hot reads, in order."""
        ...

    @property
    def detects(self) -> bool:
        """As ``Detecting.detects``. False for an engine that cannot."""
        ...

    def detect(self, request: DetectRequest) -> SpeechChances:
        """As ``Detecting.detect``, beside all other work; waits for a worker's answer. Raises NotSupported, too."""
        ...

    def check_kind(self, request: Request) -> None:
        """Raises NotSupported for a request of a kind that the engine does not serve."""
        ...

    # Moves

    def check_nodes(self, make_way: Callable[[], None]) -> None:
        """Before memory is reserved for the way up: whether all machines answer that shall hold a part of the model.

        Calls ``make_way`` before it blocks for seconds. Raises Unreachable. A model on this machine alone asks nobody.
        """
        ...

    def hold(self, seconds: float = FOREVER) -> AbstractContextManager[bool]:
        """Keep other threads from moving the engine. Waits at most so many seconds for it; False when that failed."""
        ...

    def map(self) -> None:
        """Cold → warm on the calling thread. Raises EngineFailure.

        Returns as soon as the engine is open, whoever opened it: another thread may hold the engine for long.
        """
        ...

    def climb(self, to: Rung) -> None:
        """Up to ``to``. Blocks. Raises the engine's error; the engine then stands on any rung below."""
        ...

    def step_down(self, to: Rung) -> None:
        """Down to ``to``; the memory is returned to the system when this returns. Raises EngineFailure."""
        ...

    def shed(self, kind: str, amount: int) -> bool:
        """As ``Thrifty.shed``. False for an engine that can save nothing."""
        ...

    def keep(self, most: int) -> None:
        """As ``Thrifty.keep``; nothing for an engine that can save nothing. Any thread, whoever holds the engine."""
        ...

    def restore(self) -> bool:
        """As ``Thrifty.restore``. False for an engine that can save nothing."""
        ...

    def close(self) -> None:
        """Any rung → cold. Logs a failure, never raises."""
        ...

    # Work

    def submit(self, work: Work, scheduler: Scheduler) -> None:
        """Prepare work that arrived at ``scheduler``, then make the answers that ``scheduler`` admits.

        Returns at once. Raises Busy when the system gives no thread.
        """
        ...

    def call(self, task: Callable[[], None]) -> Future[None]:
        """Run ``task`` on the host's thread, after the work there. Raises Busy when the system gives no thread."""
        ...

    def wake(self, scheduler: Scheduler | None = None) -> None:
        """Look at the answers again: one may continue or must end. With ``scheduler``, also at those at rest."""
        ...

    def slowest(self, seconds: float) -> Work | None:
        """The answer that has waited longest for its reader, if it has waited for so many seconds."""
        ...

    def unread(self, seconds: float) -> tuple[Work, ...]:
        """The answers under way that have waited for their readers for so many seconds."""
        ...

    def all_unread(self, seconds: float) -> tuple[Work, ...]:
        """All answers under way, if each has waited for its reader for so many seconds; else ()."""
        ...

    def stop(self) -> None:
        """End the threads and close the engine. Blocks until both are done."""
        ...
