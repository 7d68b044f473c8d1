"""The answers of a session, one at a time."""

from __future__ import annotations

from collections.abc import Callable

from edgeserve.api.realtime.asked import Asked
from edgeserve.api.realtime.conversation import Conversation, Tell
from edgeserve.api.realtime.refusal import Refused
from edgeserve.api.realtime.response import Response
from edgeserve.api.realtime.work import Answer, Stop, Work


class Answers:
    """``work`` takes what is to be done. ``current``: the answer under way."""

    def __init__(self, conversation: Conversation, tell: Tell, work: list[Work], new_id: Callable[[str], str]) -> None:
        self.current: Response | None = None
        self.waits_from: float | None = None
        """End of the latest answer's sound, in seconds of the user's, until somebody speaks again."""
        self._conversation, self._tell, self._work, self._id = conversation, tell, work, new_id
        self._conversation_id = new_id("conv")

    def check_none(self) -> None:
        """Raises InvalidRequest while an answer is under way."""
        if self.current is not None:
            text = f"answer {self.current.id} is under way: wait for its response.done, or cancel it"
            raise Refused.by("conversation_already_has_active_response", text)

    def begin(self, wanted: Asked) -> None:
        self.waits_from = None
        self.current = Response(
            self._id("resp"),
            wanted.config,
            None if wanted.beside else self._conversation,
            self._tell,
            self._id,
            prompt=wanted.prompt,
            metadata=wanted.metadata,
            conversation_id=self._conversation_id,
        )
        self.current.begin()
        self._work.append(Answer(self.current))

    def cancel(self, name: str, now: float) -> None:
        """End the answer ``name``; empty: any. Raises InvalidRequest where it is not under way."""
        if self.current is None or name not in ("", self.current.id):
            text = "there is no such answer under way: it may have ended"
            raise Refused.by("response_cancel_not_active", text, "response_id")
        self.stop("client_cancelled", now)

    def stop(self, reason: str, now: float) -> None:
        """End the answer under way, if there is one, before it is whole."""
        if (response := self.current) is not None:
            response.end("cancelled", reason)
            self.ended(response, now)
            self._work.append(Stop(response))

    def ended(self, response: Response, now: float) -> None:
        """An answer has ended, by itself or by a failure. ``now``: seconds of the user's sound so far."""
        if self._conversation.items:
            self._conversation.crowd_out(self._conversation.items[-1])
        if self.current is response:
            self.current = None
            self.waits_from = now + response.seconds
