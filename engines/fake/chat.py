"""Chat without a runtime; ``edgeserve.engines.fake.engine`` says what the fakes do and which options shape them."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from edgeserve.engine import Cancel, ModelSpec, Rung
from edgeserve.engine_abilities import ModelFacts
from edgeserve.engines.fake.engine import FakeEngine
from edgeserve.engines.fake.texts import BINS, Ready, calls_in, json_in, logprob, read_text, vector, words_of
from edgeserve.engines.shortening import shortened
from edgeserve.engines.thinking import Teller, Thoughts
from edgeserve.errors import Busy, ContextOverflow, EngineFailure, InvalidRequest, NotFound, NotSupported
from edgeserve.messages import (
    ChatEvent,
    ChatRequest,
    ContextEvent,
    ContextRequest,
    EmbeddingEvent,
    EmbedRequest,
    FinishEvent,
    FinishReason,
    PromptEvent,
    SlotEvent,
    SlotRequest,
    TextEvent,
    TextRequest,
    ToolCallEvent,
)
from edgeserve.slots import SlotState
from edgeserve.units import MB

Made = TypeVar("Made", ChatEvent, EmbeddingEvent)


def facts(spec: ModelSpec) -> ModelFacts:
    """Facts as the options name them: ``abilities``, in words."""
    abilities = tuple(str(spec.options.get("abilities", "")).split())
    return ModelFacts(
        "fake", "fake", 4_300_000_000, "Q4_K_M", 1024, BINS, "{{ messages }}", abilities, {"fake.words": 7}
    )


class FakeChat(FakeEngine):
    """Repeats the last message. Context: option ``context`` words (1024)."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self._prefix_cache = 0

    def close(self) -> None:
        super().close()
        self._prefix_cache = 0

    def savings(self) -> Mapping[str, int]:
        return {"prefix_cache": self._prefix_cache}

    def shed(self, kind: str, amount: int) -> None:
        self.steps.append(f"shed {kind}")
        if kind == "prefix_cache":
            self._prefix_cache = max(0, self._prefix_cache - amount)

    def keep(self, most: int) -> None:
        self._prefix_cache = min(self._prefix_cache, most)

    def restore(self) -> None:
        """Nothing was made smaller."""

    def chat(self, request: ChatRequest, cancel: Cancel) -> Iterator[ChatEvent]:
        return self._alone(self._answers(request, cancel))

    def embed(self, request: EmbedRequest, cancel: Cancel) -> Iterator[EmbeddingEvent]:
        return self._alone(self._embeddings(request, cancel))

    def read_text(self, request: TextRequest, cancel: Cancel) -> Iterator[TextEvent]:
        prompt = self._prompt(request.chat) if request.chat else ""
        yield read_text(request, prompt, int(self._number("context", 1024)))

    def _alone(self, events: Iterator[Made | None]) -> Iterator[Made]:
        """The events of one answer, with the work that each None asks for."""
        for event in events:
            if event is None:
                self._work()
            else:
                yield event

    def _answers(self, request: ChatRequest, cancel: Cancel) -> Generator[ChatEvent | None, None, None]:
        """Events of an answer; None before each word, which takes work."""
        self._begin()
        if request.suffix is not None and "insert" not in facts(self.spec).abilities:
            raise NotSupported("this model has no tokens for a text with a gap", param="suffix")
        prompt = shortened(request, self._fitting, int(self._number("context", 1024)))
        size, words = len(prompt.split()), self._answer(request, prompt).split()  # no picture is here after an event
        if request.count:
            yield PromptEvent(size)
        if request.count == "only":
            return
        if request.count == "each":
            yield from (PromptEvent(size, 0, read) for read in (size // 2, size))
        if calls := calls_in(request):
            yield from map(ToolCallEvent, calls)
            yield FinishEvent("tool_calls", size, len(calls))
            return
        limit = len(words) if request.max_tokens is None else min(request.max_tokens, len(words))
        teller = Teller(Thoughts() if request.prompt is None and not request.json_object else None)
        told, stopped = 0, ""
        for word in words[:limit]:
            if cancel.is_set():
                return
            if word in request.stop:
                stopped = word
                break
            yield None
            self._misbehave(word)
            token = word if told == 0 else f" {word}"
            if request.logprobs is not None:
                teller.note(logprob(token, request.logprobs))
            yield from teller.feed(token)
            told += 1
        yield from teller.finish("")
        self._prefix_cache = int(self._number("prefix_cache_mb", 0) * MB)
        reason: FinishReason = "length" if told == limit and limit < len(words) else "stop"
        yield FinishEvent(reason, size, told, reasoning_tokens=teller.reasoning_tokens, stop=stopped)

    def _misbehave(self, word: str) -> None:
        """Do what the options ask for at this word. Raises EngineFailure."""
        options = self.spec.options
        if word == options.get("fail_word"):
            raise EngineFailure(f"{self.spec.name} failed at the word {word!r}, as configured")
        if word == options.get("abort_word"):
            os.abort()
        if word == options.get("hang_word"):
            threading.Event().wait()
        if word == options.get("stop_word"):
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread stops at once, the others soon

    def _embeddings(self, request: EmbedRequest, cancel: Cancel) -> Generator[EmbeddingEvent | None, None, None]:
        """Vectors; None before each vector, which takes work."""
        self._begin()
        context = int(self._number("context", 1024))
        for one in request.inputs:
            if cancel.is_set():
                return
            words = words_of(one).split()[: context if request.cut else None]
            if len(words) > context:
                text = f"an input is {len(words)} tokens long; the context holds {context}"
                raise ContextOverflow(text, param="input")
            yield None
            yield EmbeddingEvent(vector(words), len(words))

    def _fitting(self, request: ChatRequest, limit: int) -> str:
        """The prompt. Raises ContextOverflow for more than ``limit`` words, unless they are only counted."""
        prompt = self._prompt(request)
        if (size := len(prompt.split())) > limit and request.count != "only":
            text = f"the prompt is {size} tokens long; the context holds {limit}"
            raise ContextOverflow(text, param="messages", figures=(size, limit))
        return prompt

    @staticmethod
    def _prompt(request: ChatRequest) -> str:
        if request.prompt is not None:
            others = [text for _, text in request.snippets or ()]
            return " ".join([*others, words_of(request.prompt), *filter(None, [request.suffix])])
        return " ".join(message.text for message in request.messages)

    def _answer(self, request: ChatRequest, prompt: str) -> str:
        said = request.messages[-1].text if request.messages else prompt
        if request.json_object or request.json_schema is not None:
            return json_in(said)
        if request.images:
            sizes = " ".join(str(len(image.data)) for image in request.images)
            return f"{len(request.images)} images of {sizes} bytes: {said}"
        return said


class FakeBatchChat(FakeChat):
    """Several answers at once: options ``slots`` (4) and ``beside`` (0). The answers share nothing: none starves.

    ``peak``: most answers that ran at a time. A slot remembers the words of its last prompt. Slots that were
    saved by name can be restored as long as the process lives.
    """

    starved = False

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.peak = self._running = 0
        self.beside = int(self._number("beside", 0))
        self._held: dict[int, int] = {}
        self._taken: set[int] = set()
        self._kept: dict[tuple[str, str], int] = {}

    @property
    def slots(self) -> int:
        return int(self._number("slots", 4))

    def run(
        self,
        request: ContextRequest,
        cancel: Cancel,
        prepared: object | None = None,
    ) -> Generator[ContextEvent | None, None, None]:
        if isinstance(request, SlotRequest):
            yield self._manage(request)
            return
        if isinstance(request, TextRequest):
            yield from self.read_text(request, cancel)
            return
        wanted = request.slot if isinstance(request, ChatRequest) else -1
        if wanted >= self.slots:
            raise InvalidRequest(f"there are slots 0 to {self.slots - 1}, and no slot {wanted}", param="id_slot")
        self._running += 1
        self.peak = max(self.peak, self._running)
        free = (number for number in itertools.count() if number not in self._taken)
        slot = next(free) if wanted in {-1, *self._taken} else wanted
        self._taken.add(slot)
        try:
            if isinstance(request, EmbedRequest):
                yield from self._embeddings(request, cancel)
            else:
                self._held[slot] = len(self._prompt(request).split())
                for event in self._answers(request, cancel):
                    told = slot if slot < self.slots else -1
                    yield replace(event, slot=told) if isinstance(event, FinishEvent) else event
        finally:
            self._running -= 1
            self._taken.discard(slot)

    def slot_states(self) -> tuple[SlotState, ...]:
        held, taken = dict(self._held), set(self._taken)
        slots = range(self.slots if self.rung is Rung.HOT else 0)
        return tuple(SlotState(number in taken, held.get(number, 0)) for number in slots)

    def heat(self) -> None:
        if self.rung is not Rung.HOT:
            self._held.clear()
        super().heat()

    def manage_slot(self, request: SlotRequest, cancel: Cancel) -> Iterator[SlotEvent]:
        yield self._manage(request)

    def _manage(self, request: SlotRequest) -> SlotEvent:
        slot, kept = request.slot, (request.salt, request.filename)
        if slot in self._taken:
            raise Busy(f"slot {slot} is making an answer; try again", retry_after=2)
        if request.action == "erase":
            return SlotEvent(self._held.pop(slot, 0))
        if request.action == "save":
            tokens = self._kept[kept] = self._held.get(slot, 0)
        elif kept in self._kept:
            tokens = self._held[slot] = self._kept[kept]
        else:
            raise NotFound(f"there is no saved slot {request.filename!r} of this client", param="filename")
        return SlotEvent(tokens, 4 * tokens)

    def step(self) -> None:
        self._require(Rung.HOT)
        self._fail("step")
        self._work()

    def idle_work(self) -> Iterator[None]:
        self._require(Rung.HOT)
        for _ in range(int(self._number("idle_mb", 0))):
            self._fail("idle")
            self._hold("idle")
            self._prefix_cache += MB
            yield


class FakePreparingChat(FakeBatchChat):
    """A batching chat engine that prepares requests before their turn; ``prepared_early`` counts those.

    An engine that was closed meanwhile prepares its requests in their turn.
    """

    prepared_early = 0

    def prepare(self, request: ContextRequest) -> Ready:
        self._hold("read" if isinstance(request, TextRequest) else "prepare")
        if isinstance(request, ChatRequest) and "refused" in self._prompt(request).split():
            raise InvalidRequest("the prompt says that it is refused", param="messages")
        return Ready(self._prompt(request) if isinstance(request, ChatRequest) else "")

    def run(
        self,
        request: ContextRequest,
        cancel: Cancel,
        prepared: object | None = None,
    ) -> Generator[ContextEvent | None, None, None]:
        self.prepared_early += prepared is not None
        if not isinstance(prepared or self.prepare(request), Ready):
            raise EngineFailure(f"{self.spec.name} got a request that another engine prepared")
        yield from super().run(request, cancel, prepared)
