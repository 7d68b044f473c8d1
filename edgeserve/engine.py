"""The contract between the server and every engine, whatever its runtime.

An engine stands on one of three rungs (docs/architecture.md):

    cold  nothing in memory
    warm  handle open, weights mapped but not resident, no context, no cache, no arena
    hot   ready to compute

    cold --open--> warm --heat--> hot --park--> warm       close: any --> cold

The host calls a method from one thread at a time, the thread that holds the engine, unless the method says "any
thread". Constructing an engine is free: it reads no file and imports no runtime.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Protocol, runtime_checkable

from edgeserve.dataclass import dataclass
from edgeserve.device import Device
from edgeserve.jobs import Job
from edgeserve.messages import (
    AudioEvent,
    ChatEvent,
    ChatRequest,
    ContextEvent,
    ContextRequest,
    DiarizeRequest,
    EmbeddingEvent,
    EmbedRequest,
    RerankEvent,
    RerankRequest,
    Rest,
    SlotEvent,
    SlotRequest,
    SpeakerEvent,
    SpeakRequest,
    TextEvent,
    TextRequest,
    TranscribeEvent,
    TranscribeRequest,
)


class Rung(enum.IntEnum):
    """The rungs of the residency ladder."""

    COLD = 0
    WARM = 1
    HOT = 2


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter of a model: small matrices that change its weights while an answer uses them.

    Fields:
        role   its file among the files of the model
        scale  factor of the change
        name   requests name it to use it; without a name, every answer uses it
    """

    role: str
    scale: float = 1.0
    name: str = ""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model that this device serves, with everything an engine needs to open it. Picklable.

    ``engine`` is an import string ``module:Class``. ``files`` maps a role ("model", "mmproj", "encoder", …) to its
    path. ``options`` are the model's settings; each engine documents and checks its own. ``id`` names its table in
    models.toml: the job for the short form, which is the default here, NAME for [models.NAME]. ``adapters`` are those
    that its engine can apply.
    """

    job: Job
    name: str
    engine: str
    files: Mapping[str, Path] = field(default_factory=dict)
    device: Device = "auto"
    threads: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    id: str = ""
    adapters: tuple[Adapter, ...] = ()

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self.job)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files on disk; missing files count nothing."""
        return sum(path.stat().st_size for path in self.files.values() if path.is_file())


@dataclass(frozen=True, slots=True)
class Listed:
    """A model that is not on this device: figures of the catalogue instead of files.

    - ``sizes``: role → bytes, where known; ``size_bytes`` of all files.
    - ``parameters``: numbers in the weights; 0 where unknown.
    - ``shape``: numbers that its engine estimates from; empty where unknown.

    The function that ``JobInfo.expected`` names makes a Footprint of it, or None where the figures do not suffice.
    """

    job: Job
    sizes: Mapping[str, int]
    size_bytes: int
    parameters: int = 0
    shape: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of one engine in bytes.

    ``mapped``: weights mapped from files, which the system drops under pressure. ``private``: anonymous memory while
    hot (contexts, caches, arenas, copies of weights). ``per_request``: one request on top (activations, image, KV
    beyond the standing context). ``device``: in an accelerator's own memory. ``exact``: no other work is in it.
    """

    mapped: int = 0
    private: int = 0
    per_request: int = 0
    device: int = 0
    exact: bool = True

    @property
    def total(self) -> int:
        return self.mapped + self.private + self.per_request


class Cancel(Protocol):
    """A flag that engines read between tokens and segments; ``threading.Event`` is one."""

    def is_set(self) -> bool: ...


@runtime_checkable
class Engine(Protocol):
    """The steps and figures of an engine. A step does nothing for an engine that stands on its rung already."""

    spec: ModelSpec

    @property
    def rung(self) -> Rung:
        """The rung of the engine now. Any thread."""
        ...

    def estimate(self) -> Footprint:
        """Memory of the engine when hot, before it is opened; at most 15% off. Any thread."""
        ...

    def footprint(self) -> Footprint:
        """Memory of the engine now. Any thread."""
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


class Embedder(Engine, Protocol):
    def embed(self, request: EmbedRequest, cancel: Cancel) -> Iterator[EmbeddingEvent | None]:
        """One event for each input, in order, and None as ``transcribe`` does. Requires hot."""
        ...


class ChatEngine(Embedder, Protocol):
    def chat(self, request: ChatRequest, cancel: Cancel) -> Iterator[ChatEvent]:
        """Token and reasoning events, then one FinishEvent. Requires hot.

        Ends within a token of ``cancel``, and then without a FinishEvent.
        """
        ...


class Reranker(Engine, Protocol):
    def rerank(self, request: RerankRequest, cancel: Cancel) -> Iterator[RerankEvent | None]:
        """One event for each document, in order, and None as ``transcribe`` does. Requires hot.

        Raises ContextOverflow for a query that leaves documents no room, and InvalidRequest.
        """
        ...


@runtime_checkable
class Batching(Protocol):
    """An engine that makes several answers at once, a part of each in every step. One thread drives all."""

    spec: ModelSpec

    @property
    def slots(self) -> int:
        """Runs that there may be at a time."""
        ...

    @property
    def beside(self) -> int:
        """Runs beyond ``slots`` that there may be as well, each of a client with no other. 0 while it is not hot."""
        ...

    @property
    def starved(self) -> bool:
        """True when no run can continue before another ends, because all of them share one context."""
        ...

    def run(
        self, request: ContextRequest | RerankRequest, cancel: Cancel, prepared: object | None = None
    ) -> Generator[ContextEvent | RerankEvent | None, None, None]:
        """As ``chat``, ``embed`` and ``rerank``, but yields None when it needs a ``step`` to continue. Requires hot.

        Its end, and closing it, gives the slot back. An error ends this answer alone. ``prepared``: the result of
        ``Preparing.prepare``; without it the engine prepares the request here.
        """
        ...

    def step(self) -> None:
        """Compute once for all runs. Raises EngineFailure; then no run can continue."""
        ...

    def idle_work(self) -> Iterator[None]:
        """Work that makes the next runs cheaper, while there are none. Requires hot.

        Each step takes some milliseconds; the caller may stop after any.
        """
        ...


class SlotKeeper(Engine, Protocol):
    def manage_slot(self, request: SlotRequest, cancel: Cancel) -> Iterator[SlotEvent]:
        """Does what is asked, then one event. Requires hot. ``Batching.run`` takes such requests as well.

        Raises InvalidRequest, NotFound, Forbidden, Busy and DiskFull.
        """
        ...


class TextReader(Engine, Protocol):
    def read_text(self, request: TextRequest, cancel: Cancel) -> Iterator[TextEvent]:
        """One event. Requires hot. ``Batching.run`` takes such requests as well. Raises InvalidRequest."""
        ...


class SpeechToText(Engine, Protocol):
    def languages(self) -> tuple[str, ...]:
        """ISO 639-1 codes of the model's languages; empty when no small file names them. Any thread, any rung.

        Reads at most a small file. Raises EngineFailure when that file is damaged.
        """
        ...

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | Rest | None]:
        """Segments as they become certain, then one TranscriptEnd. Requires hot.

        Yields None after a while without an event: other answers may have their turn. ``Rest`` may come between parts.
        """
        ...


class Diarizer(Engine, Protocol):
    def diarize(self, request: DiarizeRequest, cancel: Cancel) -> Iterator[SpeakerEvent | Rest | None]:
        """The stretches of all speakers in order, disjoint, after the whole audio was heard. Requires hot.

        Yields None after a while without an event, as ``transcribe`` does.
        """
        ...


class TextToSpeech(Engine, Protocol):
    def voices(self) -> tuple[str, ...]:
        """Names of the voices, the default first. Reads at most a small file. Any thread, any rung."""
        ...

    def speak(self, request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent | Rest | None]:
        """Events in order, each as soon as its sound is ready; at least one a sentence. Requires hot.

        Yields None after a while without an event, and ``Rest``, as ``transcribe`` does.
        """
        ...
