"""Chat through llama.cpp: the model mapped at startup, its own chat template, tokens streamed as text."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from typing import TypeVar

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import ContextOverflow, DoesNotFit, EngineFailure, InvalidRequest
from edgeserve.messages import ChatEvent, ChatRequest, EmbeddingEvent, EmbedRequest, Message, TextPart
from engines import llama_estimate, llama_model, pages
from engines.gguf_header import Shape, read_shape
from engines.llama_answer import Prompt, answer
from engines.llama_batch import Batch
from engines.llama_cache import PrefixCache
from engines.llama_calls import with_calls
from engines.llama_context import Context
from engines.llama_embed import embed
from engines.llama_grammar import grammar
from engines.llama_model import MappedModel
from engines.llama_options import read_options
from engines.llama_sampler import Sampler
from engines.llama_template import ChatTemplate
from engines.thinking import opened_by

E = TypeVar("E")


class LlamaChat:
    """Files: ``model``. Options: engines/llama_options.py.

    Warm: the model is mapped, no weight page is resident; private are the vocabulary and the key-value states worth
    saving. Hot: weights resident and a context made.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._configured = self.options = read_options(spec.job, spec.options)
        self._saved = PrefixCache(self.options.prefix_cache_mb << 20)
        self._model: MappedModel | None = None
        self._weights: MappedModel | None = None
        self._batch: Batch | None = None
        self._template: ChatTemplate | None = None
        self._shape: Shape | None = None
        self._private = {Rung.COLD: 0, Rung.WARM: 0, Rung.HOT: 0}

    @property
    def rung(self) -> Rung:
        if self._model is None:
            return Rung.COLD
        return Rung.WARM if self._batch is None else Rung.HOT

    def estimate(self) -> Footprint:
        return llama_estimate.estimate(self.spec, self._read_shape(), self.options)

    def footprint(self) -> Footprint:
        """Without the saved states, which ``savings`` tells of."""
        rung = self.rung
        mapped = pages.resident_mapped(self.spec.files["model"]) if rung is Rung.HOT else 0
        return Footprint(mapped=mapped, private=self._private[rung])

    def open(self) -> None:
        if self._model is None:
            before = pages.private_bytes()
            self._model = llama_model.acquire(self.spec.files["model"], self.spec.device, self.options)
            self._read_shape()
            self._saved.whole = not self._model.cuttable
            self._private[Rung.WARM] = max(0, pages.private_bytes() - before)

    def heat(self) -> None:
        if self._model is None:
            raise EngineFailure(f"{self.spec.name} is cold; open it first")
        if self._batch is None:
            before = pages.private_bytes()
            repack = self.options.repack == "on"
            self._weights = llama_model.acquire(self._model.path, self.spec.device, self.options, repack=repack)
            try:
                context = self._make_context(self._weights)
            except EngineFailure:
                self._free_weights()
                raise
            self._batch = Batch(context, self.options.parallel, self._saved)
            self._weights.heat()
            self._private[Rung.HOT] = self._private[Rung.WARM] + max(0, pages.private_bytes() - before)

    def park(self) -> None:
        """Conversations worth it stay as saved states."""
        if self._batch is not None:
            self._batch.save()
            self._cool()

    def close(self) -> None:
        self._saved.shrink(0)
        self._cool()
        if self._model is not None:
            self._template = None
            llama_model.release(self._model)
            self._model = None

    def _cool(self) -> None:
        if self._weights is not None and self._batch is not None:
            self._free_context(self._batch.context)
            self._batch = None
            self._weights.cool()
            self._free_weights()
            pages.trim_heap()

    def _read_shape(self) -> Shape:
        """Once. Raises EngineFailure."""
        if self._shape is None:
            self._shape = read_shape(self.spec.files["model"])
        return self._shape

    def _make_context(self, model: MappedModel) -> Context:
        return Context(model, self.options, self.spec.threads)

    def _free_context(self, context: Context) -> None:
        context.free()

    def _free_weights(self) -> None:
        if self._weights is not None:
            llama_model.release(self._weights)
            self._weights = None

    # Memory that it can do without (edgeserve.engine.Thrifty)

    def savings(self) -> Mapping[str, int]:
        """The saved states; and a smaller context, as long as none is made."""
        shape = None if self.rung is Rung.HOT else self._shape
        context = llama_estimate.shrinkable(shape, self.options) if shape else 0
        return {"prefix_cache": self._saved.size, "context": context}

    def shed(self, kind: str, amount: int) -> None:
        if kind == "prefix_cache":
            self._saved.shrink(max(0, self._saved.size - amount))
            pages.trim_heap()
        elif kind == "context" and self.rung is not Rung.HOT:
            self.options = llama_estimate.shrunk(self._read_shape(), self.options, amount)

    def restore(self) -> None:
        self.options = self._configured

    # Chat and embeddings

    def chat(self, request: ChatRequest, cancel: Cancel) -> Iterator[ChatEvent]:
        """Alone in the batch, or with those that are under way."""
        return self._driven(self._answer(request, cancel))

    def embed(self, request: EmbedRequest, cancel: Cancel) -> Iterator[EmbeddingEvent]:
        return self._driven(self._embed(request, cancel))

    def _driven(self, events: Generator[E | None, None, None]) -> Iterator[E]:
        with contextlib.closing(events):
            for event in events:
                if event is None:
                    self.step()
                else:
                    yield event

    @property
    def slots(self) -> int:
        return self.options.parallel

    def run(
        self, request: ChatRequest | EmbedRequest, cancel: Cancel
    ) -> Generator[ChatEvent | EmbeddingEvent | None, None, None]:
        return self._embed(request, cancel) if isinstance(request, EmbedRequest) else self._answer(request, cancel)

    def _hot(self) -> tuple[MappedModel, Batch]:
        if self._model is None or self._batch is None:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        return self._model, self._batch

    def _embed(self, request: EmbedRequest, cancel: Cancel) -> Generator[EmbeddingEvent | None, None, None]:
        yield from embed(self._hot()[1], request, cancel)

    def _answer(self, request: ChatRequest, cancel: Cancel) -> Generator[ChatEvent | None, None, None]:
        model, batch = self._hot()
        limit = min(request.max_tokens or self.options.max_new_tokens, self.options.max_new_tokens)
        sampler = Sampler(request, self.options, model.vocabulary, grammar(request, self._chat_template(model).form))
        prompt: Prompt | None = None
        try:
            prompt = self._take(model, batch, request)
            yield from self._feed(batch, prompt, cancel)
            events = answer(batch, prompt, request, sampler, limit, cancel)
            several = request.tool_choice.parallel
            yield from with_calls(events, request.tools, several=several) if request.tools else events
        except ContextOverflow as error:
            if self.options.context == self._configured.context:
                raise
            raise DoesNotFit(
                f"{error}. Memory is short: the context was reduced from {self._configured.context} to "
                f"{self.options.context} tokens until the engine is next idle; free memory on the device, or set "
                'kv_type = "q8_0" in models.toml',
                param="messages",
            ) from error
        finally:
            sampler.free()
            if prompt is not None:
                self._done(batch, prompt)

    def step(self) -> None:
        if self._batch is not None:
            self._batch.step()

    def _take(self, model: MappedModel, batch: Batch, request: ChatRequest) -> Prompt:
        """The prompt in a slot of the batch."""
        if request.images:
            raise InvalidRequest("this model takes no images; use a vision model", param="messages")
        if request.prompt is not None:
            tokens, thinks = model.read(request.prompt, param="prompt"), False
        else:
            text = self.prompt(model, request)
            tokens, thinks = model.tokenize(text, add_special=False), opened_by(text)
        if not tokens:
            raise InvalidRequest("the prompt is empty", param="prompt")
        slot, cached = batch.take(tokens)
        return Prompt(slot, len(tokens), cached, thinks=thinks)

    def _feed(self, batch: Batch, prompt: Prompt, cancel: Cancel) -> Iterator[None]:
        """What a prompt needs beyond its tokens, which are pending already; None for each step that it waits for."""
        yield from ()

    def _done(self, batch: Batch, prompt: Prompt) -> None:
        batch.give_back(prompt.slot)

    def prompt(self, model: MappedModel, request: ChatRequest, marker: str = "") -> str:
        """Text to continue: the conversation in the model's own chat template."""
        messages = request.messages
        if self.options.system and not any(message.role == "system" for message in messages):
            messages = (Message("system", (TextPart(self.options.system),)), *messages)
        return self._chat_template(model).render(messages, marker, request.tools, several=request.tool_choice.parallel)

    def _chat_template(self, model: MappedModel) -> ChatTemplate:
        if self._template is None:
            self._template = ChatTemplate(model.chat_template(), *model.borders())
        return self._template
