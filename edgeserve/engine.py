"""The contract between the server and every engine, whatever its runtime.

An engine stands on one of three rungs (docs/architecture.md):

    cold  nothing in memory
    warm  handle open, weights mapped but not resident, no context, no cache, no arena
    hot   ready to compute

    cold --open--> warm --heat--> hot --park--> warm       close: any --> cold

All methods but ``estimate``, ``footprint`` and the properties are called from one thread at a time: the gate's
worker. Constructing an engine is free: no file is read, no runtime imported.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from edgeserve.jobs import ALL_JOBS as ALL_JOBS
from edgeserve.jobs import JOBS as JOBS
from edgeserve.jobs import Job as Job
from edgeserve.messages import (
    AudioEvent,
    ChatEvent,
    ChatRequest,
    EmbeddingEvent,
    EmbedRequest,
    SpeakRequest,
    TranscribeEvent,
    TranscribeRequest,
)

Device = Literal["auto", "cpu", "cuda", "metal"]


class Rung(enum.IntEnum):
    """How far up the residency ladder an engine stands."""

    COLD = 0
    WARM = 1
    HOT = 2


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model that this device serves: all an engine needs to open it. Picklable.

    ``engine`` is an import string ``module:Class``. ``files`` maps a role ("model", "mmproj", "encoder", …) to its
    path. ``options`` are the model's settings; each engine documents and checks its own.
    """

    job: Job
    name: str
    engine: str
    files: Mapping[str, Path] = field(default_factory=dict)
    device: Device = "auto"
    threads: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files on disk; missing files count nothing."""
        return sum(path.stat().st_size for path in self.files.values() if path.is_file())


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of one engine in bytes.

    ``mapped``: weights mapped from files: droppable, the system takes them back under pressure. ``private``:
    anonymous memory while hot (contexts, caches, arenas, copies of weights). ``per_request``: what one request adds
    on top (activations, image, KV beyond the standing context). ``device``: on an accelerator of its own memory.
    """

    mapped: int = 0
    private: int = 0
    per_request: int = 0
    device: int = 0

    @property
    def total(self) -> int:
        return self.mapped + self.private + self.per_request


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """One accelerator as a runtime sees it, in bytes. ``name``: what computes there, "cuda" or "metal"; ``unified``:
    its memory is the machine's own."""

    name: str
    total: int
    free: int
    unified: bool = False


@dataclass(frozen=True, slots=True)
class AllocatorMemory:
    """What a runtime's own allocator holds, in bytes: ``active`` in arrays, ``cached`` to be used again; ``peak``: the
    most that was active since the last load. ``recommended``: what the GPU that it allocates on advises to take; None
    on the processor."""

    active: int
    cached: int
    peak: int
    recommended: int | None = None


class Allocator(Protocol):
    """A runtime that keeps what it frees. Any thread."""

    def read(self) -> AllocatorMemory | None:
        """None until an engine has loaded the runtime, which this never does."""
        ...

    def clear_cache(self) -> None:
        """Give back what it keeps; nothing before it is loaded."""
        ...


class Cancel(Protocol):
    """Asked between tokens and segments; ``threading.Event`` is one."""

    def is_set(self) -> bool: ...


@runtime_checkable
class Engine(Protocol):
    """What the gate knows of an engine. Every step is idempotent on the rung it leads to."""

    spec: ModelSpec

    @property
    def rung(self) -> Rung:
        """Where the engine stands now. Any thread."""
        ...

    def estimate(self) -> Footprint:
        """What the engine will take when hot, before it is opened; at most 15% off. Any thread."""
        ...

    def footprint(self) -> Footprint:
        """What the engine takes now. Any thread."""
        ...

    def open(self) -> None:
        """Cold → warm (or hot, where a runtime has no warm). Blocks. Raises EngineFailure and stays cold."""
        ...

    def heat(self) -> None:
        """Warm → hot: weights resident, contexts made. Blocks. Raises EngineFailure and stays warm."""
        ...

    def park(self) -> None:
        """Hot → warm; the memory is returned to the system when this returns."""
        ...

    def close(self) -> None:
        """Any → cold; everything is returned to the system when this returns. Never raises for a closed engine."""
        ...


@runtime_checkable
class Thrifty(Protocol):
    """An engine that can do with less before others are moved down for it. Optional; one without it saves nothing."""

    def savings(self) -> Mapping[str, int]:
        """Bytes that ``shed`` could save now, by kind. Any thread; reads no file.

        "prefix_cache": states of past prompts, held on top of the footprint. "context", "image": what the next way up
        to hot would take less with a smaller context or picture; nothing while hot. "optional_context": the part of a
        context of automatic size above the smallest useful one; no other engine gives memory up for it.
        """
        ...

    def shed(self, kind: str, amount: int) -> None:
        """Save at least ``amount`` bytes, or all that was offered. Called as a step is, by one thread at a time and
        never while a request runs; the memory is returned to the system when this returns. Never raises."""
        ...

    def restore(self) -> None:
        """Take the next way up with the context and pictures that are configured. Called as ``shed`` is."""
        ...


@runtime_checkable
class Limited(Protocol):
    """An engine whose runtime can be told how much to take. Optional."""

    def limit(self, memory: int, cache: int, wired: int | None) -> None:
        """Bytes of the whole runtime: to allocate, to keep after use, and to pin, None where the system cannot.

        Called as a step is, before each way up, with what memory allows then. Raises EngineFailure."""
        ...


@runtime_checkable
class Prefetchable(Protocol):
    """An engine that reads other files than its spec names on the way up. Optional."""

    def prefetch_files(self) -> Iterable[Path]:
        """In the order in which they are read; those that are missing are passed over. Any thread, any rung."""
        ...


@runtime_checkable
class Contextual(Protocol):
    """An engine that reads what it is given into a context of so many tokens. Optional."""

    @property
    def context_tokens(self) -> int | None:
        """Of all its requests together; None while no context is made. Any thread."""
        ...


class ChatEngine(Engine, Protocol):
    def chat(self, request: ChatRequest, cancel: Cancel) -> Iterator[ChatEvent]:
        """Token and reasoning events, then one FinishEvent. Requires hot. Ends within a token of cancel, without it."""
        ...

    def embed(self, request: EmbedRequest, cancel: Cancel) -> Iterator[EmbeddingEvent]:
        """One event for each input, in order. Requires hot."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """An engine that checks a request and gets it ready before its turn, beside the answers under way. Optional."""

    def prepare(self, request: ChatRequest | EmbedRequest) -> object:
        """What ``Batching.run`` takes as ``prepared``.

        Any thread. The engine was warm or hot when the call began, and may be closed meanwhile. Raises InvalidRequest
        for what the client sent, and EngineFailure where the engine is closed."""
        ...


@runtime_checkable
class Batching(Protocol):
    """A chat engine that makes several answers at once, a token of each in every step. One thread drives all."""

    @property
    def slots(self) -> int:
        """How many runs there may be at a time."""
        ...

    def run(
        self, request: ChatRequest | EmbedRequest, cancel: Cancel, prepared: object | None = None
    ) -> Generator[ChatEvent | EmbeddingEvent | None, None, None]:
        """As ``chat`` and ``embed``, but None each time that ``step`` must be called before it can go on. Closing it
        gives its slot back; so does its end. ``prepared`` is what ``Preparing.prepare`` made of the request; without it
        the engine prepares here. Requires hot. An error ends this answer alone."""
        ...

    def step(self) -> None:
        """Compute once for all runs. Raises EngineFailure, after which none of them can go on."""
        ...

    def idle_work(self) -> Iterator[None]:
        """While there are no runs: what makes the next ones cheaper, in steps that take some milliseconds each; may be
        left off after any. Requires hot."""
        ...


class SpeechToText(Engine, Protocol):
    def languages(self) -> tuple[str, ...]:
        """ISO 639-1 codes that the model knows; none where only the open model, or nobody, can tell. Reads at most a
        small file; works on every rung, any thread. Raises EngineFailure where that is damaged."""
        ...

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | None]:
        """Segments as they become certain, then one TranscriptEnd. Requires hot.

        None where a while was worked without an event: others may have their turn.
        """
        ...


class TextToSpeech(Engine, Protocol):
    def voices(self) -> tuple[str, ...]:
        """Names of the voices, the default first. Reads at most a small file; works on every rung, any thread."""
        ...

    def speak(self, request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent | None]:
        """Events in order, each as soon as its sound is ready: some for a sentence, at least one. Requires hot.

        None where a while was worked without an event: others may have their turn.
        """
        ...
