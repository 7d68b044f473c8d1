"""Chat through llama.cpp: the model mapped at startup, its own chat template, tokens streamed as text."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
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
from engines.llama_estimate import Span
from engines.llama_grammar import grammar
from engines.llama_model import MappedModel
from engines.llama_options import DEFAULT_CONTEXT, context_size, read_options
from engines.llama_sampler import Sampler
from engines.llama_states import StateFiles, states_key
from engines.llama_template import ChatTemplate
from engines.thinking import opened_by

E = TypeVar("E")

log = logging.getLogger("edgeserve.llama")


class LlamaChat:
    """Files: ``model``. Options: engines/llama_options.py.

    Warm: the model is mapped, no weight page is resident; private are the vocabulary and the key-value states worth
    saving. Hot: weights resident and a context made.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._configured = self.options = read_options(spec.job, spec.options)
        self._saved = PrefixCache(0)
        self._model: MappedModel | None = None
        self._weights: MappedModel | None = None
        self._batch: Batch | None = None
        self._template: ChatTemplate | None = None
        self._shape: Shape | None = None
        self._token = 0
        """Bytes of one token of context."""
        self._private = {Rung.COLD: 0, Rung.WARM: 0, Rung.HOT: 0}

    @property
    def rung(self) -> Rung:
        if self._model is None:
            return Rung.COLD
        return Rung.WARM if self._batch is None else Rung.HOT

    @property
    def context_tokens(self) -> int | None:
        batch = self._batch  # another thread may take it away
        return batch.context.size if batch is not None else None

    def estimate(self) -> Footprint:
        shape, full = self._read_shape(), self._configured
        layout = llama_estimate.lay_out(self.spec, shape, full)
        self._token = layout.token + layout.device_token
        fewer = context_size(full, shape.trained_context) - context_size(self.options, shape.trained_context)
        return llama_estimate.footprint(self.spec, layout, full, fewer)

    def footprint(self) -> Footprint:
        """Without the saved states, which ``savings`` tells of."""
        rung = self.rung
        mapped = pages.resident_mapped(self.spec.files["model"]) if rung is Rung.HOT else 0
        return Footprint(mapped=mapped, private=self._private[rung])

    def open(self) -> None:
        if self._model is None:
            before = pages.private_bytes()
            self._model = llama_model.acquire(self.spec.files["model"], self.spec.device, self.options)
            self._measure_token()
            self._saved = self._make_cache(self._model)
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
            if not self._configured.context:
                trained = self._read_shape().trained_context
                log.info("%s: context of %d tokens; it was trained on %d", self.spec.name, context.size, trained)

    def park(self) -> None:
        """Conversations worth it stay as saved states."""
        if self._batch is not None:
            self._batch.save()
            self._cool()

    def close(self) -> None:
        self._saved.limit = 0  # what is kept now goes to disk, where there is one
        if self._batch is not None:
            self._batch.save()
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

    def _make_cache(self, model: MappedModel) -> PrefixCache:
        options, whole, disk = self.options, not model.cuttable, None
        if options.prefix_cache_disk_mb:
            folder = Path(options.prefix_cache_dir or model.path.parent / "states") / self.spec.job
            disk = StateFiles(folder, options.prefix_cache_disk_mb << 20, states_key(model.path, options), whole=whole)
        return PrefixCache(options.prefix_cache_mb << 20, whole=whole, disk=disk)

    def _measure_token(self) -> None:
        """Exactly where all depends on it: a context as large as memory allows."""
        if not self._configured.context:
            self.estimate()
        self._token = self._token or llama_estimate.by_shape(self._read_shape(), self._configured).token

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
        span = self._span
        spare = span.savable(DEFAULT_CONTEXT) if not self._configured.context else 0
        return {"prefix_cache": self._saved.size, "spare_context": spare, "context": span.savable() - spare}

    def shed(self, kind: str, amount: int) -> None:
        if kind == "prefix_cache":
            self._saved.shrink(max(0, self._saved.size - amount))
            if self.rung is Rung.HOT:  # else it has long been idle, or copies were not what took it
                self._saved.stop_copies()
            pages.trim_heap()
        elif kind in ("spare_context", "context") and self.rung is not Rung.HOT:
            least = DEFAULT_CONTEXT if kind == "spare_context" else llama_estimate.SMALLEST_CONTEXT
            self.options = dataclasses.replace(self.options, context=self._span.without(amount, least))

    @property
    def _span(self) -> Span:
        """The context of the next way up; nothing while one is made, nor before the model was opened."""
        if self._shape is None or self.rung is Rung.HOT:
            return Span(0, 0)
        return Span(context_size(self.options, self._shape.trained_context), self._token)

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
        sampler: Sampler | None = None
        prompt: Prompt | None = None
        try:
            prompt = self._take(model, batch, request)
            rules = grammar(request, self._chat_template(model).form, thinks=prompt.thinks)
            sampler = Sampler(request, self.options, model.vocabulary, rules)
            yield from self._feed(batch, prompt, cancel)
            events = answer(batch, prompt, request, sampler, limit, cancel)
            several = request.tool_choice.parallel
            yield from with_calls(events, request.tools, several=several) if request.tools else events
        except ContextOverflow as error:
            trained = self._read_shape().trained_context
            full, now = context_size(self._configured, trained), context_size(self.options, trained)
            if full == now:
                raise
            raise DoesNotFit(
                f"{error}. Memory is short: the context was reduced from {full} to {now} tokens until the engine is "
                'next idle; free memory on the device, or set kv_type = "q8_0" in models.toml',
                param="messages",
            ) from error
        finally:
            if sampler is not None:
                sampler.free()
            if prompt is not None:
                self._done(batch, prompt)

    def step(self) -> None:
        if self._batch is not None:
            self._batch.step()

    def rest(self) -> Iterator[None]:
        if self._batch is not None:
            yield from self._batch.rest()

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
