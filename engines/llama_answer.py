"""One answer in the making: sample, turn into text, decode on, until it ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.messages import ChatEvent, ChatRequest, FinishEvent, TokenEvent
from engines.llama_batch import Batch, Slot
from engines.llama_sampler import Sampler
from engines.llama_text import TextStream


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the answer continues: its slot, tokens, how many of them a cache knew, and, with pictures, its chunks."""

    slot: Slot
    tokens: int
    cached: int = 0
    chunks: Any = None


def answer(
    batch: Batch, prompt: Prompt, request: ChatRequest, sampler: Sampler, limit: int, cancel: Cancel
) -> Iterator[ChatEvent | None]:
    """Events of at most ``limit`` tokens; None each time that the batch must take a step first. A cancelled answer ends
    without a FinishEvent."""
    context, slot = batch.context, prompt.slot
    model, stream = context.model, TextStream(request.stop)
    said, ended = 0, False
    while not cancel.is_set():
        if slot.full:
            break
        if slot.output is None:
            yield None
            continue
        token = sampler.sample(context.handle, slot.output)
        said += 1
        ended = model.ends(token)
        text = "" if ended else stream.feed(model.piece(token))
        if text:
            yield TokenEvent(text)
        if ended or stream.stopped or said >= limit or slot.cells >= context.size:
            break
        batch.push(slot, token)
    else:
        return
    if not stream.stopped and (rest := stream.rest()):
        yield TokenEvent(rest)
    yield FinishEvent("stop" if ended or stream.stopped else "length", prompt.tokens, said, prompt.cached)
