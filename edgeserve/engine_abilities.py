"""Abilities that an engine may have beside the steps and figures of every engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol, runtime_checkable

from edgeserve.dataclass import dataclass
from edgeserve.messages import (
    ContextRequest,
    DetectRequest,
    RerankRequest,
    SpeechChances,
)
from edgeserve.slots import SlotState
from edgeserve.splits.plan import Sizes


@runtime_checkable
class Thrifty(Protocol):
    """An engine that can do with less memory before others are moved down for it. Optional."""

    def savings(self) -> Mapping[str, int]:
        """Bytes that ``shed`` could save now, by kind. Any thread; reads no file.

        - "prefix_cache": states of past prompts, held on top of the footprint.
        - "context", "image": bytes that the next way up saves with a smaller context or picture; 0 while hot.
        - "reordered": a private copy of the weights that the next way up makes for speed alone; 0 while hot. No other
          engine gives memory up for it. It goes as a whole.
        - "copy": such a copy that the hot engine holds. It cannot be shed: under pressure the engine steps down, and
          the next way up makes none without room for it.
        - "draft": a model that guesses tokens, which the next way up opens for speed alone; as "reordered".
        - "optional_context": the part of a context of automatic size above the smallest useful one. No other engine
          gives memory up for it.
        """
        ...

    def shed(self, kind: str, amount: int) -> None:
        """Save at least ``amount`` bytes, or all that was offered. Never raises.

        Never called while a request runs. The memory is returned to the system when this returns.
        """
        ...

    def keep(self, most: int) -> None:
        """Hold at most so many bytes of states of past prompts from now on. Any thread, also while requests run.

        An engine that holds more drops them before its next step. Memory of a context that goes is no bound for them.
        """
        ...

    def restore(self) -> None:
        """Take the next way up with the context and pictures that are configured. Never called while a request runs."""
        ...


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts from a model's files. The module of an engine may have ``facts``, which makes them of a spec.

    Fields:
        form          format of the files, such as "gguf"
        family        architecture of the model
        parameters    numbers in the weights; 0 where unknown
        quantization  type of most weights, such as "Q4_K_M"
        context       tokens of the trained context; 0 where unknown
        width         numbers of a vector; 0 where unknown
        template      source of the chat template
        abilities     "thinking": it can think before its answer, a request can forbid it; "insert": it fills text in
        entries       numbers and texts of the file's metadata
    """

    form: str = ""
    family: str = ""
    parameters: int = 0
    quantization: str = ""
    context: int = 0
    width: int = 0
    template: str = ""
    abilities: tuple[str, ...] = ()
    entries: Mapping[str, str | int | float] = field(default_factory=dict)


@runtime_checkable
class Limited(Protocol):
    """An engine whose runtime takes limits. Optional."""

    def limit(self, memory: int, cache: int, wired: int | None) -> None:
        """Limit the bytes that the whole runtime allocates, keeps after use, and pins; None: the system cannot pin.

        Called before each way up, with the limits that memory allows then. Raises EngineFailure.
        """
        ...


@runtime_checkable
class Prefetchable(Protocol):
    """An engine whose way up reads other files than its spec names. Optional."""

    def prefetch_files(self) -> Iterable[Path]:
        """Files in the order of reading; the caller skips missing ones. Any thread, any rung."""
        ...


@runtime_checkable
class Detecting(Protocol):
    """An engine that detects speech beside its answers. Optional."""

    @property
    def detects(self) -> bool:
        """Whether its model has a detector. Any thread, any rung; reads no file."""
        ...

    def detect(self, request: DetectRequest) -> SpeechChances:
        """Takes a fraction of a millisecond for each frame. Any thread, from warm on, also beside an answer.

        Raises EngineFailure for a cold engine, and InvalidRequest for samples that are no whole frames.
        """
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """Rights that an engine needs in a confined process, beside reading the files of its spec.

    Fields:
        read   folders to read, with all below
        write  folders to read and write, with all below; a missing one is made before the engine opens
        tidy   folders whose files may be listed and removed, with all below, but not read; made as those of write
        gpu    the engine may use a GPU, where there is one
    ports  TCP ports of other machines that the engine connects to
    """

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    tidy: tuple[Path, ...] = ()
    gpu: bool = False
    ports: tuple[int, ...] = ()


@runtime_checkable
class Declaring(Protocol):
    """An engine that needs more rights in a confined process than to read its files. Optional."""

    def access(self) -> Access:
        """Any thread, any rung; reads no file."""
        ...


@runtime_checkable
class Splitting(Protocol):
    """An engine whose model lies on several machines: this one, and those of its ``nodes`` behind it. Optional."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Workers on other machines, as "host:port"."""
        ...

    def contexts(self) -> tuple[int, ...]:
        """Sizes of the context in tokens, the preferred one first: what does not fit with one may with the next."""
        ...

    def sizes(self, context: int) -> Sizes:
        """Memory of the parts with a context of so many tokens. Reads the model's header. Raises EngineFailure."""
        ...

    def place(self, endpoints: Sequence[str], layers: Sequence[int], context: int) -> None:
        """Place the layers for the next way up to hot: ``layers`` of this machine, then of each of ``endpoints``.

        An endpoint is "address:port".
        """
        ...


@dataclass(frozen=True, slots=True)
class RemotePart:
    """Layers of a model that a worker on another machine holds now, and their bytes there."""

    node: str
    layers: int
    size: int


@runtime_checkable
class Spread(Protocol):
    """An engine as its server sees it, whose model may lie on several machines. Optional."""

    @property
    def remote_parts(self) -> tuple[RemotePart, ...]:
        """The parts on other machines; none below hot. Any thread."""
        ...


@runtime_checkable
class Contextual(Protocol):
    """An engine with a context. Optional."""

    @property
    def context_tokens(self) -> int | None:
        """Tokens of the context that all requests share; None while no context is made. Any thread."""
        ...


@runtime_checkable
class Parallel(Protocol):
    """An engine that answers several requests at the same time. Optional."""

    @property
    def slots(self) -> int:
        """Requests that it answers at the same time, at least 1. Any thread."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """An engine that checks and prepares a request before its turn, beside the answers under way. Optional."""

    def prepare(self, request: ContextRequest | RerankRequest) -> object:
        """The prepared request for ``Batching.run``, which may be ``Prompted``. Any thread.

        The engine was warm or hot when the call began, and may be closed meanwhile. Raises InvalidRequest for a mistake
        of the client, and EngineFailure for a closed engine.
        """
        ...


@runtime_checkable
class Prompted(Protocol):
    """A prepared request that knows the size of its prompt. Optional."""

    @property
    def prompt_tokens(self) -> int:
        """0 for a request without a prompt, or with one whose tokens are not counted yet."""
        ...


def prompt_tokens(prepared: object) -> int:
    """As ``Prompted.prompt_tokens``; 0 for a prepared request that does not know it."""
    return prepared.prompt_tokens if isinstance(prepared, Prompted) else 0


@runtime_checkable
class Slotted(Protocol):
    """A batching engine whose slots the owner of the device may look at. Optional."""

    def slot_states(self) -> tuple[SlotState, ...]:
        """The slots; none while the engine is not hot. Any thread."""
        ...
