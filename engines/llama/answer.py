"""One answer in the making: sample, turn into text, decode on, until it ends."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.messages import ChatEvent, ChatRequest, FinishEvent, FinishReason
from engines.llama.batch import Batch
from engines.llama.beside import Beside
from engines.llama.logprobs import Logprobs
from engines.llama.sampler import Sampler
from engines.llama.slot import Slot
from engines.llama.text import TextStream
from engines.thinking import Teller, Thoughts


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the answer continues: its slot, tokens, how many of them a cache knew, and, with pictures, its chunks.

    ``thinks``: it ends in the tag that begins a model's thoughts.
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
    beside: Beside,
) -> Iterator[ChatEvent | None]:
    """Events of at most ``limit`` tokens; None each time that the batch must take a step first. A cancelled answer ends
    without a FinishEvent."""
    context, slot = batch.context, prompt.slot
    model, stream = context.model, TextStream(request.stop)
    teller = Teller(_thoughts(prompt, request))
    logprobs = None if request.logprobs is None else Logprobs(context, request.logprobs)
    said, ended = 0, False
    while not cancel.is_set():
        if slot.full:
            break
        if slot.output is None:
            yield None
            continue
        logits: Any = context.logits(slot.output) if sampler.held or logprobs is not None else None
        if sampler.held:
            logits = logits.copy()  # the next step overwrites them
            token = yield from beside.run(functools.partial(sampler.sample_held, logits))
        else:
            token = sampler.sample(context.handle, slot.output)
        said += 1
        ended = model.ends(token)
        if not ended:
            if logprobs is not None:
                teller.note(logprobs.of(token, logits))
            yield from teller.feed(stream.feed(model.piece(token)))
        if ended or stream.stopped or said >= limit or slot.cells >= context.size:
            break
        batch.push(slot, token)
    else:
        return
    yield from teller.rest("" if stream.stopped else stream.rest())
    reason: FinishReason = "stop" if ended or stream.stopped else "length"
    yield FinishEvent(reason, prompt.tokens, said, prompt.cached, teller.reasoning_tokens)


def _thoughts(prompt: Prompt, request: ChatRequest) -> Thoughts | None:
    """A raw prompt is continued as it is; a grammar leaves no room for thoughts."""
    held = request.json_object or request.json_schema is not None or request.tool_choice.required
    return None if held or request.prompt is not None else Thoughts(opened=prompt.thinks)
