"""One answer as events. No I/O: whoever makes the answer feeds it, and the session sends the events."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.conversation import Conversation, Tell
from edgeserve.api.realtime.items import Item
from edgeserve.messages import FinishEvent, ToolCall
from edgeserve.talk.spoken import Spoken


class Response:
    """An answer under way. After its end it takes nothing any more.

    ``conversation``: where its items go; None for an answer beside the conversation. ``prompt``: the items that it
    answers instead of the conversation. ``tell`` sends an event, by its type and fields. ``new_id`` makes ids.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        conversation: Conversation | None,
        tell: Tell,
        new_id: Callable[[str], str],
        *,
        prompt: list[Item] | None = None,
        metadata: Mapping[str, Any] | None = None,
        conversation_id: str = "",
    ) -> None:
        self.id = name
        self.config = config
        self.prompt = prompt
        self.over = False
        self._conversation = conversation
        self._conversation_id = conversation_id if conversation is not None else None
        self._tell, self._new_id = tell, new_id
        self._metadata = metadata
        self._output: list[Item] = []
        self._message: Item | None = None
        self._status: str = "in_progress"
        self._details: dict[str, Any] | None = None
        self._usage: dict[str, Any] | None = None

    @property
    def seconds(self) -> float:
        """Length of its sound so far."""
        return sum(one.spoken.seconds for one in self._output if one.spoken)

    def written(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": self._status,
            "status_details": self._details,
            "output": [one.written() for one in self._output],
            "conversation_id": self._conversation_id,
            "output_modalities": [self.config.settings.output_modalities],
            "audio": {"output": (self.config.written["audio"] or {}).get("output")},
            "max_output_tokens": self.config.settings.max_output_tokens or "inf",
            "metadata": self._metadata,
            "usage": self._usage,
        }

    def begin(self) -> None:
        self._tell("response.created", response=self.written())

    def say(self, text: str) -> None:
        """More text of an answer in text."""
        item = self._opened()
        item.content[0]["text"] += text
        self._part("response.output_text.delta", item, delta=text)

    def speak(self, text: str) -> None:
        """The next clause. Its sound follows."""
        item = self._opened()
        assert item.spoken is not None  # noqa: S101 - an answer that speaks
        item.spoken.begin(text)
        item.content[0]["transcript"] = item.spoken.text
        self._part("response.output_audio_transcript.delta", item, delta=text)

    def sound(self, data: bytes) -> None:
        """Sound of the latest clause, in the form of the client."""
        item = self._opened()
        if data and item.spoken is not None:
            item.spoken.add(self.config.target.seconds(len(data)))
            self._part("response.output_audio.delta", item, delta=base64.b64encode(data).decode())

    def spoke(self) -> None:
        """The latest clause has all its sound."""
        if self._message is not None and self._message.spoken is not None:
            self._message.spoken.finish()

    def call(self, call: ToolCall) -> None:
        """A whole call of a function."""
        self._close("completed")
        name = self._new_id("item")
        item = Item(name, "function_call", status="in_progress", call_id=call.id or self._new_id("call"))
        item.name = call.name
        at = self._add(item)
        place = {"response_id": self.id, "item_id": item.id, "output_index": at, "call_id": item.call_id}
        item.arguments, item.status = call.arguments, "completed"
        self._tell("response.function_call_arguments.delta", **place, delta=call.arguments)
        self._tell("response.function_call_arguments.done", **place, name=call.name, arguments=call.arguments)
        self._finish(item, at)

    def count(self, end: FinishEvent) -> None:
        """The tokens of the answer."""
        read, made, cached = end.prompt_tokens, end.completion_tokens, end.cached_tokens
        inside = {"text_tokens": read, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": cached}
        self._usage = {
            "total_tokens": read + made,
            "input_tokens": read,
            "output_tokens": made,
            "input_token_details": inside,
            "output_token_details": {"text_tokens": made, "audio_tokens": 0},
        }

    def end(self, status: str, reason: str = "", error: Mapping[str, Any] | None = None) -> None:
        """``status``: completed, cancelled, incomplete or failed. Idempotent."""
        if self.over:
            return
        self.over = True
        if status == "completed" and not self._output:
            self._opened()  # an answer of no words is an empty message
        self._close("completed" if status == "completed" else "incomplete")
        self._status = status
        if status != "completed":
            self._details = {"type": status}
            self._details |= {"reason": reason} if reason else {}
            if error is not None:
                self._details["error"] = {"type": error.get("type"), "code": error.get("code")}
        self._tell("response.done", response=self.written())

    def _opened(self) -> Item:
        """The message, opened with its first word."""
        if self._message is not None:
            return self._message
        self._message = item = Item(self._new_id("item"), role="assistant", status="in_progress")
        at = self._add(item)
        if self.config.speaks:
            item.spoken = Spoken()
            part = {"type": "audio", "transcript": ""}
            item.content.append({"type": "output_audio", "transcript": ""})
        else:
            part = {"type": "text", "text": ""}
            item.content.append({"type": "output_text", "text": ""})
        place = {"response_id": self.id, "item_id": item.id, "output_index": at, "content_index": 0}
        self._tell("response.content_part.added", **place, part=part)
        return item

    def _close(self, status: str) -> None:
        item, self._message = self._message, None
        if item is None:
            return
        item.status = status
        if item.spoken is not None:
            transcript = item.content[0]["transcript"]
            self._part("response.output_audio.done", item)
            self._part("response.output_audio_transcript.done", item, transcript=transcript)
            part: dict[str, Any] = {"type": "audio", "transcript": transcript}
        else:
            part = {"type": "text", "text": item.text}
            self._part("response.output_text.done", item, text=item.text)
        self._part("response.content_part.done", item, part=part)
        self._finish(item, self._output.index(item))

    def _add(self, item: Item) -> int:
        self._output.append(item)
        at = len(self._output) - 1
        self._tell("response.output_item.added", response_id=self.id, output_index=at, item=item.written())
        if self._conversation is not None:
            self._conversation.add(item)
        return at

    def _finish(self, item: Item, at: int) -> None:
        self._tell("response.output_item.done", response_id=self.id, output_index=at, item=item.written())
        if self._conversation is not None:
            self._conversation.finish(item)

    def _part(self, type_: str, item: Item, **fields: Any) -> None:
        place = {"response_id": self.id, "item_id": item.id, "output_index": self._output.index(item)}
        self._tell(type_, **place, content_index=0, **fields)
