"""The renderer of this dialect: a response, whole or in events."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from edgeserve.api import failures, sse
from edgeserve.api.fragments import written
from edgeserve.api.responses.output import DEPTH, Events, Json, Output
from edgeserve.errors import EdgeserveError
from edgeserve.messages import (
    Event,
    FinishEvent,
    ReasoningEvent,
    TokenEvent,
    TokenLogprob,
    ToolCallEvent,
)

PING = b": the answer is under way\n\n"
"""A comment, which clients ignore, while there is no event to send."""
Keep = Callable[[str, bytes, Sequence[Json]], bool]
"""Stores a response by its id, its JSON and its output. False where the store cannot keep it."""


class ResponseAnswer:
    """Folds the events of one answer into a response. ``told``: fields that the response repeats.

    The final response is made of the same items as the events, so that the two cannot differ. ``keep`` stores it; None
    where the request asks for no storing.
    """

    def __init__(self, model: str, told: Json, *, stream: bool, keep: Keep | None) -> None:
        self.stream = stream
        self.media_type = sse.MEDIA_TYPE if stream else "application/json"
        self._events = Events(stream=stream)
        self._output = Output(self._events)
        self._keep = keep
        self._finish: FinishEvent | None = None
        self._begun = self._said = False
        self._blank = ""
        """White space at the beginning of a message, held back: a message of nothing else says nothing."""
        self._blank_logprobs: tuple[TokenLogprob, ...] = ()
        self._response: Json = {
            "id": f"resp_{secrets.token_hex(24)}",
            "object": "response",
            "created_at": int(time.time()),
            "completed_at": None,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": model,
            "output": [],
            "usage": None,
            **told,
        }

    def feed(self, index: int, event: Event) -> Iterator[bytes]:
        if not self._begun:
            yield self._opening()
        match event:
            case TokenEvent():
                yield from self._text(event)
            case ReasoningEvent():
                self._forget()
                yield from self._output.think(event.text)
            case ToolCallEvent():
                self._forget()
                yield from self._output.call(event.call)
            case FinishEvent():
                self._finish = event

    def end(self) -> Iterator[bytes]:
        finish, output = self._finish, self._output
        status = "incomplete" if finish and finish.reason == "length" else "completed"
        yield self._opening()
        if status == "completed" and not any(one["type"] != "reasoning" for one in output.items):
            yield from output.say(self._blank, self._blank_logprobs)
        yield from output.closing(status)
        self._response |= {"status": status, "output": output.items, "usage": _usage(finish)}
        self._response["completed_at"] = int(time.time()) if status == "completed" else None
        if status == "incomplete":
            self._response["incomplete_details"] = {"reason": "max_output_tokens"}
        body = self._kept()
        yield self._lifecycle(status) if self.stream else body

    def fail(self, error: EdgeserveError) -> bytes:
        told = failures.body(error)["error"]
        events = self._opening()
        self._output.closing("incomplete")  # and no event says so
        failed = {"code": told["code"], "message": told["message"]}
        if error.retry_after is not None:
            failed["message"] += f" (try again in {max(1, round(error.retry_after))}s)"
        self._response |= {"status": "failed", "error": failed, "output": self._output.items}
        return events + self._lifecycle("failed")

    def _text(self, event: TokenEvent) -> Iterator[bytes]:
        text, logprobs = self._blank + event.text, self._blank_logprobs + event.logprobs
        if not self._said and (not text or text.isspace()):
            self._blank, self._blank_logprobs = text, logprobs
        else:
            self._forget()
            self._said = True
            yield from self._output.say(text, logprobs)

    def _forget(self) -> None:
        """The next text begins a message."""
        self._said, self._blank, self._blank_logprobs = False, "", ()

    def _opening(self) -> bytes:
        """The first events of a stream."""
        if self._begun:
            return b""
        self._begun = True
        return self._lifecycle("created") + self._lifecycle("in_progress")

    def _lifecycle(self, what: str) -> bytes:
        return self._events.write(f"response.{what}", {"response": self._response}, long=True)

    def _kept(self) -> bytes:
        """The response as JSON, stored where it is to be."""
        body = written(self._response, DEPTH).encode() if self._keep or not self.stream else b""
        if self._keep and not self._keep(self._response["id"], body, self._output.items):
            self._response["store"] = False
            body = written(self._response, DEPTH).encode()
        return body


def _usage(finish: FinishEvent | None) -> Json:
    prompt, said = (finish.prompt_tokens, finish.completion_tokens) if finish else (0, 0)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": finish.cached_tokens if finish else 0, "cache_write_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": finish.reasoning_tokens if finish else 0},
        "total_tokens": prompt + said,
    }
