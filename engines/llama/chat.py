"""Chat through llama.cpp: the model file mapped, prompts by its own chat template, tokens streamed as text."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, TypeVar

from edgeserve.engine import Cancel
from edgeserve.engines.llama import model as llama_model
from edgeserve.engines.llama.adapters import Active, active
from edgeserve.engines.llama.background import Background, following, writing
from edgeserve.engines.llama.embed import embed
from edgeserve.engines.llama.facts import facts as facts
from edgeserve.engines.llama.ladder import LlamaLadder
from edgeserve.engines.llama.managing import check_slot, manage
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.options import CONTEXT_STEP, DEFAULT_CONTEXT, context_size
from edgeserve.engines.llama.prepare import Prepared, check_inputs, prepare_chat, prepare_inputs
from edgeserve.engines.llama.prompt import prompt_text
from edgeserve.engines.llama.texts import read_text
from edgeserve.errors import Busy, ContextOverflow, ContextReduced, EngineFailure, InvalidRequest
from edgeserve.messages import (
    ChatEvent,
    ChatRequest,
    ContextEvent,
    ContextRequest,
    EmbeddingEvent,
    EmbedRequest,
    LoosenedEvent,
    Message,
    PromptEvent,
    ReadEvent,
    SlotEvent,
    SlotRequest,
    TextEvent,
    TextPart,
    TextRequest,
)
from edgeserve.slots import SlotState

if TYPE_CHECKING:
    from edgeserve.engines.llama.answer import Prompt
    from edgeserve.engines.llama.batch import Batch
    from edgeserve.engines.llama.template import ChatTemplate

E = TypeVar("E")


class LlamaChat(LlamaLadder):
    """Chat and embeddings on the rungs of ``LlamaLadder``.

    Any thread may call ``prepare``; one thread at a time calls the other methods.
    """

    _marker = ""
    """Text that stands for a picture in a prompt; empty for a model that takes no pictures."""

    def chat(self, request: ChatRequest, cancel: Cancel) -> Iterator[ChatEvent]:
        """The events of one answer. Each step of the batch decodes the other answers under way, too."""
        return self._drive(self.run(request, cancel))  # type: ignore[arg-type]

    def embed(self, request: EmbedRequest, cancel: Cancel) -> Iterator[EmbeddingEvent]:
        return self._drive(self.run(request, cancel))  # type: ignore[arg-type]

    def manage_slot(self, request: SlotRequest, cancel: Cancel) -> Iterator[SlotEvent]:
        return self._drive(self.run(request, cancel))  # type: ignore[arg-type]

    def read_text(self, request: TextRequest, cancel: Cancel) -> Iterator[TextEvent]:
        return self._drive(self.run(request, cancel))  # type: ignore[arg-type]

    def slot_states(self) -> tuple[SlotState, ...]:
        batch = self._batch  # another thread may set it to None
        slots = batch.numbers.slots if batch is not None else ()
        return tuple(SlotState(slot.busy, slot.cells, slot.drafted, slot.accepted) for slot in slots)

    def _drive(self, events: Generator[E | None, None, None]) -> Iterator[E]:
        with contextlib.closing(events):
            for event in events:
                if event is None:
                    self.step()
                elif not isinstance(event, ReadEvent):
                    yield event

    @property
    def slots(self) -> int:
        return self.options.parallel

    @property
    def beside(self) -> int:
        return self._batch.context.beside if self._batch is not None else 0

    @property
    def starved(self) -> bool:
        """Whether a preempted answer waits for room while no other has anything to decode."""
        return self._batch is not None and self._batch.starved

    def prepare(self, request: ContextRequest) -> Prepared | TextEvent | None:
        """Tokens and grammar of a request. Any thread.

        None for a request that has none, and when the engine is closed: then ``run`` prepares.
        """
        model = self._model
        if isinstance(request, SlotRequest) or model is None or not llama_model.hold(model):
            return None
        try:
            if isinstance(request, TextRequest):
                asked = request.chat or ChatRequest()
                render = functools.partial(self.prompt, model, asked, self._marker)
                return read_text(model, request, render, self._longest_prompt())
            if isinstance(request, EmbedRequest):
                with self._explain_overflow(self._longest_input()):
                    return prepare_inputs(model, request, self._longest_input())
            if request.slot >= 0:
                check_slot(request.slot, self.slots, "id_slot")
            if request.images and not self._marker:
                raise InvalidRequest("this model takes no images; use a vision model", param="messages")
            template, limit = functools.partial(self._chat_template, model), self._longest_prompt()
            limit = limit if request.context is None else min(limit, request.context)
            render = functools.partial(self.prompt, model, marker=self._marker)
            with self._explain_overflow(limit):
                return prepare_chat(model, template, request, render, limit)
        finally:
            llama_model.release(model)

    def run(
        self,
        request: ContextRequest,
        cancel: Cancel,
        prepared: object | None = None,
    ) -> Generator[ContextEvent | None, None, None]:
        """Events of one answer; None asks for a ``step``. It takes a slot when the first event is asked for."""
        batch = self._hot()[1]
        if isinstance(request, SlotRequest):
            background = Background(lambda: batch.busy, writing)
            yield from manage(batch, request, active(self.spec.adapters, None), background, cancel)
            return
        ready = prepared if isinstance(prepared, Prepared | TextEvent) else self.prepare(request)
        if ready is None:
            raise EngineFailure(f"{self.spec.name} was closed before it could answer")
        if isinstance(ready, TextEvent):
            yield ready
        elif isinstance(request, TextRequest):
            raise EngineFailure(f"{self.spec.name} prepared another kind of request")
        elif isinstance(request, EmbedRequest):
            with self._explain_overflow(self._longest_input()):
                check_inputs(ready.inputs, self._longest_input())
            yield from self._embed(request, ready, cancel)
        else:
            yield from self._answer(request, ready, cancel)

    def _longest_prompt(self) -> int:
        """Tokens of the context. Before the context is made, its configured size, rounded up as llama.cpp does."""
        made = self.context_tokens
        size = context_size(self._configured, self._read_shape().trained_context)
        return made if made is not None else -(-size // CONTEXT_STEP) * CONTEXT_STEP

    def _longest_input(self) -> int:
        return self._longest_prompt()

    def _hot(self) -> tuple[MappedModel, Batch]:
        if self._model is None or self._batch is None:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        return self._model, self._batch

    def _adapters(self, request: ChatRequest | EmbedRequest) -> Active:
        """The adapters that an answer uses. Raises InvalidRequest for one that the model does not have."""
        return active(self.spec.adapters, request.adapters)

    def _embed(
        self, request: EmbedRequest, prepared: Prepared, cancel: Cancel
    ) -> Generator[EmbeddingEvent | None, None, None]:
        yield from embed(self._hot()[1], prepared.inputs, cancel, self._adapters(request), request.salt)

    def _answer(
        self, request: ChatRequest, prepared: Prepared, cancel: Cancel
    ) -> Generator[ChatEvent | None, None, None]:
        """Events of a chat. The model, sampler and slot are released however the answer ends."""
        from edgeserve.engines.llama.answer import answer, held  # a worker is ready before it needs these
        from edgeserve.engines.llama.sampler import Sampler

        model, batch = self._hot()
        most = self.options.max_new_tokens
        limit = most if request.max_tokens is None else min(request.max_tokens, most)
        stopped = threading.Event()
        background = Background(lambda: batch.busy, following if prepared.own else None)
        with contextlib.ExitStack() as taken, self._explain_overflow(batch.context.size):
            if llama_model.hold(model):  # background work may outlive a cancelled answer
                taken.callback(background.when_done, functools.partial(llama_model.release, model))
            if request.count == "only":
                yield PromptEvent((yield from self._count(request, prepared, background)))
                return
            if prepared.loosened:
                yield LoosenedEvent(prepared.loosened)
            taken.callback(stopped.set)
            rules, endings = prepared.rules, prepared.endings
            make = functools.partial(Sampler, request, self.options, model.vocabulary, rules, endings, stopped)
            sampler = (yield from background.run(make, Sampler.free)) if prepared.rules else make()
            taken.callback(background.when_done, sampler.free)
            prompt = yield from self._take(batch, request, prepared, background, cancel)
            batch.numbers.give(prompt.slot, request.slot)
            prompt.slot.ahead = request.ahead
            background.slots = 1
            taken.callback(self._done, batch, prompt)
            if request.count:
                yield from held(prompt.slot, [PromptEvent(prompt.tokens, prompt.cached)])
            yield from self._feed(batch, prompt, cancel)
            if request.context is not None:
                limit = min(limit, request.context - prompt.tokens)
            events = answer(batch, prompt, request, sampler, limit, cancel, background)
            yield from _with_calls(events, request) if request.tools else events

    @contextlib.contextmanager
    def _explain_overflow(self, limit: int) -> Iterator[None]:
        """Say so when a prompt overflows ``limit`` tokens for lack of memory, not by its own wish: ContextReduced.

        A context of automatic size promises its first tokens alone: beyond them the error stays the client's.
        """
        try:
            yield
        except ContextOverflow as error:
            trained = self._read_shape().trained_context
            full, now = context_size(self._configured, trained), context_size(self.options, trained)
            if full == now or not now <= limit < full:
                raise
            if not self._configured.context and now >= DEFAULT_CONTEXT:
                text = f"{error}. Memory has room for {now} of {full} tokens: for more, set context in models.toml"
                raise ContextOverflow(text, param=error.param, figures=error.figures) from error
            raise ContextReduced(
                f"{error}. Memory is short: the context was reduced from {full} to {now} tokens until the engine is "
                'next idle; free memory on the device, or set kv_type = "q8_0" in models.toml',
                param=error.param,
            ) from error

    def step(self) -> None:
        if self._batch is not None:
            self._batch.step()

    def idle_work(self) -> Iterator[None]:
        if self._batch is not None:
            yield from self._batch.idle_work()

    def _take(
        self, batch: Batch, request: ChatRequest, prepared: Prepared, background: Background, cancel: Cancel
    ) -> Generator[None, None, Prompt]:
        """Put the prompt into a slot of the batch. Yields None for each step to take meanwhile. Raises Cancelled."""
        yield from batch.seats.until_free(cancel)
        adapters = self._adapters(request)
        salt = batch.context.model.adapters.salted(request.salt, adapters)
        if (reading := batch.seats.read_ahead(prepared.tokens, salt)) is not None:
            with contextlib.suppress(Busy):  # without a thread, the other answers wait for the disk
                yield from background.run(reading)
            while batch.pieces.owes(batch.slots):  # the answers wait while the state is taken in
                yield None
            yield from batch.seats.until_free(cancel)
        slot, cached = batch.take(prepared.tokens, salt, adapters)
        from edgeserve.engines.llama.answer import Prompt

        return Prompt(slot, len(prepared.tokens), cached, thinks=prepared.thinks)

    def _count(self, request: ChatRequest, prepared: Prepared, background: Background) -> Generator[None, None, int]:
        """Tokens of a prompt. Yields None for each step to take meanwhile."""
        yield from ()
        return len(prepared.tokens)

    def _feed(self, batch: Batch, prompt: Prompt, cancel: Cancel) -> Iterator[None]:
        """Decode the parts of a prompt that are no tokens. Yields None for each step to take meanwhile."""
        yield from ()

    def _done(self, batch: Batch, prompt: Prompt) -> None:
        batch.give_back(prompt.slot)

    def prompt(self, model: MappedModel, request: ChatRequest, marker: str = "") -> str:
        """The text of the prompt: the conversation in the model's chat template."""
        messages = request.messages
        if self.options.system and not any(message.role == "system" for message in messages):
            messages = (Message("system", (TextPart(self.options.system),)), *messages)
        return prompt_text(self._chat_template(model), dataclasses.replace(request, messages=messages), marker)

    def _chat_template(self, model: MappedModel) -> ChatTemplate:
        from edgeserve.engines.llama.template import ChatTemplate  # a worker is ready before it needs this

        template = self._template  # another thread may close the engine meanwhile
        if template is None:
            template = self._template = ChatTemplate(model.chat_template(), *model.bos_eos())
        return template


def _with_calls(events: Iterator[ChatEvent | None], request: ChatRequest) -> Iterator[ChatEvent | None]:
    from edgeserve.engines.llama.calls import with_calls  # as above

    return with_calls(events, request.tools, several=request.tool_choice.parallel)
