"""The loop of one answer: sample tokens, turn them into text, decode them, until the answer ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engine import Cancel
from edgeserve.engines.llama.background import Background
from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.drafts import Drafter
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.picks import Picker, Picks
from edgeserve.engines.llama.sampler import Sampler
from edgeserve.engines.llama.slot import Slot
from edgeserve.engines.llama.text import TextStream
from edgeserve.engines.thinking import Teller, Thoughts
from edgeserve.messages import (
    ChatEvent,
    ChatRequest,
    FinishEvent,
    FinishReason,
    PromptEvent,
    ReasoningEvent,
    TokenEvent,
    TokenLogprob,
)


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

    @property
    def read(self) -> PromptEvent:
        """The tokens of the prompt that are read so far."""
        computed = self.tokens - self.cached - len(self.slot.pending)
        return PromptEvent(self.tokens, self.cached, max(0, computed))


class Progress:
    """Reports how much of a prompt was read, after each further part."""

    def __init__(self, prompt: Prompt, request: ChatRequest) -> None:
        self._prompt, self._told = prompt, 0
        self._wanted = request.count == "each"

    def news(self) -> Sequence[PromptEvent]:
        """The next event. None after that of the whole prompt."""
        read, whole = self._prompt.read, self._prompt.tokens - self._prompt.cached
        if not self._wanted or not self._told < read.computed_tokens:
            return ()
        self._told, self._wanted = read.computed_tokens, read.computed_tokens < whole
        return (read,)


def held(slot: Slot, events: Sequence[ChatEvent]) -> Iterator[ChatEvent]:
    """Events behind any of which a slow reader pauses the answer. Meanwhile its room is there for other answers.

    The batch decodes no pending token before the last event is taken: later steps would overwrite the logits.
    """
    slot.held = True
    yield from events
    slot.held = False


class Wording:
    """Turns the tokens of an answer into events.

    ``said``: tokens so far; ``ended``: the model ended the answer; ``stopped``: a stop string was found.
    """

    def __init__(self, model: MappedModel, request: ChatRequest, thoughts: Thoughts | None) -> None:
        self._model = model
        self._stream = TextStream(request.stop)
        self._stop_tokens = request.stop_tokens
        self._teller = Teller(thoughts)
        self.said, self.ended = 0, False

    @property
    def stopped(self) -> bool:
        return self._stream.stopped

    def feed(self, token: int, logprob: TokenLogprob | None) -> Sequence[ChatEvent]:
        """Events of the next token."""
        self.said += 1
        self.ended = self._model.ends(token) or token in self._stop_tokens
        if self.ended:
            return ()
        if logprob is not None:
            self._teller.note(logprob)
        return tuple(self._teller.feed(self._stream.feed(self._model.piece(token))))

    def finish(self, prompt: Prompt, slot: int) -> Iterator[ChatEvent]:
        """The last events. ``slot``: number of the prompt's slot; -1: none."""
        yield from self._teller.finish("" if self.stopped else self._stream.flush())
        reason: FinishReason = "stop" if self.ended or self.stopped else "length"
        reasoning, stop = self._teller.reasoning_tokens, self._stream.stop
        yield FinishEvent(reason, prompt.tokens, self.said, prompt.cached, reasoning, stop, slot)


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
    wording = Wording(context.model, request, _thoughts(prompt, request))
    picker = Picker(context, sampler, request.logprobs, background, guesses=batch.drafts.longest > 0)
    drafter = batch.drafts.writer([*slot.tokens, *slot.pending])
    progress, over = Progress(prompt, request), False
    while not over:
        if cancel.is_set():
            return
        if slot.full and not wording.said:
            raise batch.seats.no_room()
        if slot.full:
            break
        if slot.output is None:
            yield from _stepped(slot, progress)
            continue
        read = progress.news()
        if not limit:
            yield from held(slot, read)
            break  # the prompt was read, and that is all
        picks = yield from picker.pick(slot)
        events, taken, over = _take(wording, picks, limit, context.size - slot.cells + len(slot.draft))
        # All of this before the first event: a slow reader pauses the answer there, and other answers continue.
        batch.settle(slot, taken[: len(picks.found)][:-1])
        yield from held(slot, (*read, *_merged(events)))
        if not over:
            _go_on(batch, slot, picks, taken, drafter)
    yield from held(slot, tuple(wording.finish(prompt, batch.numbers.of(slot))))


def _stepped(slot: Slot, progress: Progress) -> Iterator[ChatEvent | None]:
    """None, for a step of the batch; then the news of a prompt that the step has not read to its end.

    Raises the slot's error.
    """
    yield None
    if slot.error is not None:
        raise slot.error
    if slot.output is None:
        yield from held(slot, progress.news())


def _take(wording: Wording, picks: Picks, limit: int, room: int) -> tuple[list[ChatEvent], list[int], bool]:
    """The events of the picked tokens, the tokens up to the end of the answer, and whether that has come.

    The answer ends at ``limit`` tokens, and at the first token beyond ``room`` cells.
    """
    events: list[ChatEvent] = []
    taken: list[int] = []
    for token, logprob in (*picks.found, *((one, None) for one in picks.forced)):
        events += wording.feed(token, logprob)
        over = wording.ended or wording.stopped or wording.said >= limit or len(taken) >= room
        taken.append(token)
        if over:
            return events, taken, True
    return events, taken, False


def _go_on(batch: Batch, slot: Slot, picks: Picks, taken: Sequence[int], drafter: Drafter) -> None:
    """Give the coming step the tokens that are not decoded, and a guess. Raises the error of picks or slot."""
    if (error := picks.error or slot.error) is not None:
        raise error
    drafter.note(taken[: len(picks.found)], picks.forced)
    batch.push(slot, *taken[len(picks.found) - 1 :], guess=drafter.guess(picks.likely))


def _merged(events: Sequence[ChatEvent]) -> Iterator[ChatEvent]:
    """The events of one step, with neighbours of a kind as one: each event costs the server as much as a token."""
    last: ChatEvent | None = None
    if len(events) == 1:
        yield events[0]
        return
    for event in events:
        if isinstance(last, TokenEvent) and isinstance(event, TokenEvent):
            last = TokenEvent(last.text + event.text, last.logprobs + event.logprobs)
        elif isinstance(last, ReasoningEvent) and isinstance(event, ReasoningEvent):
            last = ReasoningEvent(last.text + event.text)
        else:
            if last is not None:
                yield last
            last = event
    if last is not None:
        yield last


def _thoughts(prompt: Prompt, request: ChatRequest) -> Thoughts | None:
    """None for an answer without thoughts: a raw prompt has no template, and a grammar allows no thoughts."""
    constrained = request.shaped or request.tool_choice.required
    return None if constrained or request.prompt is not None else Thoughts(opened=prompt.thinks)
