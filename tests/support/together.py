"""Several answers of one engine at a time, by its own loop."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.messages import ChatEvent, ChatRequest, FinishEvent, TokenEvent


def events_together(
    engine: LlamaChat, requests: Sequence[ChatRequest], leave: int | None = None
) -> list[list[ChatEvent]]:
    """The events of each request; the request numbered ``leave`` is cancelled after its third token."""
    cancels = [threading.Event() for _ in requests]
    runs = [engine.run(request, cancel) for request, cancel in zip(requests, cancels, strict=True)]
    told: list[list[ChatEvent]] = [[] for _ in runs]
    under_way = list(range(len(runs)))
    while under_way:
        for number in tuple(under_way):
            while True:
                try:
                    event = next(runs[number])
                except StopIteration:
                    under_way.remove(number)
                    break
                if event is None:
                    break
                told[number].append(event)  # type: ignore[arg-type]
                if number == leave and len(text_of(told[number])) > 10:
                    cancels[number].set()
        engine.step()
    return told


def together(
    engine: LlamaChat, requests: Sequence[ChatRequest], leave: int | None = None
) -> list[tuple[str, FinishEvent | None]]:
    """Text and end of each."""
    told = events_together(engine, requests, leave)
    return [(text_of(one), next((end for end in one if isinstance(end, FinishEvent)), None)) for one in told]


def text_of(events: Sequence[ChatEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TokenEvent))
