"""The account of one request over HTTP: the figures of its answers, for the log and for its trace."""

from __future__ import annotations

import contextvars
from dataclasses import field

from edgeserve.dataclass import dataclass
from edgeserve.figures.answer import Answer, Times
from edgeserve.figures.spans import Attributes, Span
from edgeserve.figures.trace import HEADER, Trace

current: contextvars.ContextVar[Account | None] = contextvars.ContextVar("account", default=None)
"""The account of the request that is served; None outside of one. Threads of hosts see it, too."""

OTHER = "other"
"""The route of a request that no route serves."""
OPERATIONS = {"llm": "chat", "vision": "chat", "embedding": "embeddings"}
"""OpenTelemetry's names of what a model does; other jobs have none and keep their own."""


@dataclass(slots=True, eq=False)
class Account:
    """Sums over all answers of the request; a WebSocket may have many. Times in seconds.

    - ``queue``: longest wait for a turn
    - ``first``: shortest time to a first token or sound
    - ``route``: as the table of routes writes it
    - ``about``: fields of each log line of the request in JSON
    """

    trace: Trace | None = None
    span: Span | None = None
    engine: str = ""
    model: str = ""
    route: str = OTHER
    queue: float | None = None
    first: float | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    about: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.trace is not None:
            self.about["trace_id"] = self.trace.trace

    def asks(self, engine: str, model: str) -> None:
        """The request takes a lease on a model."""
        self.engine, self.model = engine, model
        self.about |= {"engine": engine, "model": model}

    def add(self, answer: Answer, times: Times) -> None:
        """An answer has ended."""
        if times.started is not None:
            self.queue = max(times.started - times.arrived, self.queue or 0.0)
        if answer.first is not None:
            first = answer.first - times.arrived
            self.first = first if self.first is None else min(first, self.first)
        self.prompt_tokens += answer.prompt_tokens
        self.cached_tokens += answer.cached_tokens
        self.completion_tokens += answer.tokens

    def told(self) -> dict[str, object]:
        """The figures for the line of the log that ends the request; milliseconds. Empty without an answer."""
        times = {"queue_ms": self.queue, "ttft_ms": self.first}
        found: dict[str, object] = {name: round(1000 * one, 1) for name, one in times.items() if one is not None}
        tokens = {
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
        }
        return found | (tokens if self.prompt_tokens or self.completion_tokens else {})

    def attributes(self) -> Attributes:
        """The figures for the span of the request, by the names of OpenTelemetry's conventions."""
        if not self.engine:
            return {"http.route": self.route}
        return {
            "http.route": self.route,
            "gen_ai.operation.name": OPERATIONS.get(self.engine, self.engine),
            "gen_ai.request.model": self.model,
            "gen_ai.usage.input_tokens": self.prompt_tokens,
            "gen_ai.usage.output_tokens": self.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": self.cached_tokens,
        }


def outgoing() -> dict[str, str]:
    """Headers for a request that the server makes on behalf of the current one: its trace, if it has one."""
    account = current.get()
    if account is None or account.trace is None:
        return {}
    return {HEADER: str(account.trace)}
