"""The loop of one answer: sample a token, turn it into text, decode it, until the answer ends."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.messages import ChatEvent, ChatRequest, FinishEvent, FinishReason
from engines.llama.background import Background
from engines.llama.batch import Batch
from engines.llama.logprobs import Logprobs
from engines.llama.sampler import Sampler
from engines.llama.slot import Slot
from engines.llama.text import TextStream
from engines.thinking import Teller, Thoughts


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in its slot.

    tokens  length of the prompt, pictures included
    cached  tokens of it that came from the KV cache
    chunks  text and pictures of the prompt; None for a prompt without pictures
    thinks  the prompt ends in the tag that opens a model's thoughts
    """

    slot: Slot
    tokens: int
    cached: int = 0
    chunks: Any = None
    thinks: bool = False


def answer(
    batch: Batch,
    prompt: Prompt,
    request: ChatRequest,
    sampler: Sampler,
    limit: int,
    cancel: Cancel,
    background: Background,
) -> Iterator[ChatEvent | None]:
    """Events of at most ``limit`` tokens. None asks the caller for a step of the batch.

    A cancelled answer ends without a FinishEvent. Raises Busy when other answers leave its prompt no room.
    """
    context, slot = batch.context, prompt.slot
    model, stream = context.model, TextStream(request.stop)
    teller = Teller(_thoughts(prompt, request))
    logprobs = None if request.logprobs is None else Logprobs(context, request.logprobs)
    said, ended = 0, False
    while not cancel.is_set():
        if slot.full:
            if not said:
                raise batch.no_room()
            break
        if slot.output is None:
            yield None
            continue
        if not limit:
            break  # the prompt was read, and that is all
        logits: Any = context.logits(slot.output) if sampler.constrained or logprobs is not None else None
        if sampler.constrained:
            logits = logits.copy()  # the next step of the batch overwrites the original
            token = yield from background.run(functools.partial(sampler.sample_constrained, logits))
        else:
            token = sampler.sample(context.handle, slot.output)
        said += 1
        ended = model.ends(token) or token in request.stop_tokens
        if not ended:
            if logprobs is not None:
                teller.note(logprobs.of(token, logits))
            yield from teller.feed(stream.feed(model.piece(token)))
        if ended or stream.stopped or said >= limit or slot.cells >= context.size:
            break
        batch.push(slot, token)
    else:
        return
    yield from teller.rest("" if stream.stopped else stream.flush())
    reason: FinishReason = "stop" if ended or stream.stopped else "length"
    yield FinishEvent(reason, prompt.tokens, said, prompt.cached, teller.reasoning_tokens, stream.stop)


def _thoughts(prompt: Prompt, request: ChatRequest) -> Thoughts | None:
    """None for an answer without thoughts: a raw prompt has no template, and a grammar allows no thoughts."""
    constrained = request.shaped or request.tool_choice.required
    return None if constrained or request.prompt is not None else Thoughts(opened=prompt.thinks)
