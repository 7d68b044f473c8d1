"""Texts as the model reads them: tokens and prompts, in llama-server's shapes, and vLLM's for requests of its kind."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.attachments import Attachments
from edgeserve.api.conversation import Messages
from edgeserve.api.fields import Fields
from edgeserve.api.json_body import read_json
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.api.openai.ending import MAX_TOKEN
from edgeserve.api.openai.prompts import is_token
from edgeserve.api.question import Question
from edgeserve.api.schema import Field
from edgeserve.api.tools import ToolsOrFunctions
from edgeserve.api.values import Flag, Text
from edgeserve.errors import EdgeserveError
from edgeserve.jobs import CHAT
from edgeserve.messages import ChatRequest, Event, TextEvent, TextRequest

TEXT_CHARS = 1 << 20
"""Characters of a text to cut: some 300,000 tokens, and a second of work beside the answers under way."""
Told = Callable[[TextEvent], Mapping[str, Any]]
"""Makes the answer of an event. Values that are iterators are written as lists."""
AT_ONCE = 4096
"""Tokens that are written in one call, during which no other thread of the process runs."""


class TokenIds(Field[tuple[int, ...]]):
    """A list of token ids, possibly empty."""

    def __init__(self, words: str) -> None:
        super().__init__(words, (), required=True)

    def read(self, fields: Fields, limits: Limits) -> tuple[int, ...]:
        given = fields.raw(self.name)
        if not isinstance(given, list) or not all(map(is_token, given)):
            raise fields.error(self.name, f"must be a list of tokens, whole numbers from 0 to {MAX_TOKEN}")
        return tuple(map(int, given))

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": MAX_TOKEN}}


class Conversed(Question, ToolsOrFunctions):
    """A conversation, with the tools that its template lists for the model."""

    messages = Messages()

    async def request(self, request: Request) -> ChatRequest:
        """Raises InvalidRequest and its kinds."""
        messages = await self.messages.whole(Attachments(request))
        return ChatRequest(messages, tools=self.declared(), tool_choice=self.choice())


class Tokenize(Conversed):
    """The body of POST /tokenize: content as llama-server takes it, or prompt or messages as vLLM does."""

    content = Text("a text to cut into tokens", limit=TEXT_CHARS)
    add_special = Flag("of content: add the model's own first and last tokens")
    parse_special = Flag("of content: texts of control tokens become these tokens", default=True)
    with_pieces = Flag("of content: tell the text of each token")
    prompt = Text("vLLM: a text to cut into tokens", limit=TEXT_CHARS)
    add_special_tokens = Flag("of prompt: add the model's own first and last tokens", default=True)
    return_token_strs = Flag("of prompt and messages: tell the text of each token")

    def __init__(self, fields: Fields, limits: Limits) -> None:
        super().__init__(fields, limits)
        given = [name for name in ("content", "prompt", "messages") if self.has(name)]
        if len(given) > 1:
            raise self.error(given[1], f"cannot stand beside {given[0]}")

    @classmethod
    def describe(cls, limits: Limits) -> dict[str, Any]:
        none = {"type": "null"}
        texts = ("content", "prompt", "messages")
        ways = [{"properties": dict.fromkeys((one for one in texts if one != way), none)} for way in texts]
        return super().describe(limits) | {"anyOf": ways}


class Detokenize(Question):
    """The body of POST /detokenize."""

    tokens = TokenIds("the tokens to join")


class ApplyTemplate(Conversed):
    """A chat request whose prompt is asked for. Fields about the answer are accepted and change nothing."""

    OPEN = True
    messages = Messages(required=True)


class TextAnswer:
    """The renderer of one text event."""

    stream = False
    media_type = "application/json"

    def __init__(self, told: Told) -> None:
        self._told = told
        self._event = TextEvent()

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, TextEvent):
            self._event = event
        return b""

    def end(self) -> bytes:
        return b"".join(_written(self._told(self._event)))

    def fail(self, error: EdgeserveError) -> bytes:
        return b""


async def tokenize(request: Request) -> Call:
    asked = await read_json(request, Tokenize)
    if asked.has("messages"):
        chat = await asked.request(request)
        return _call(request, asked, TextRequest(chat=chat, pieces=asked.return_token_strs), counted)
    if asked.has("prompt"):
        special, pieces = asked.add_special_tokens, asked.return_token_strs
        return _call(request, asked, TextRequest(text=asked.prompt, add_special=special, pieces=pieces), counted)
    wanted = TextRequest(
        text=asked.content,
        add_special=asked.add_special,
        parse_special=asked.parse_special,
        pieces=asked.with_pieces,
    )
    return _call(request, asked, wanted, with_pieces if asked.with_pieces else bare)


async def detokenize(request: Request) -> Call:
    asked = await read_json(request, Detokenize)
    return _call(request, asked, TextRequest(tokens=asked.tokens), joined)


async def apply_template(request: Request) -> Call:
    asked = await read_json(request, ApplyTemplate)
    return _call(request, asked, TextRequest(chat=await asked.request(request)), prompted)


async def input_tokens(request: Request) -> Call:
    asked = await read_json(request, ApplyTemplate)
    return _call(request, asked, TextRequest(chat=await asked.request(request)), numbered)


def _call(request: Request, asked: Question, wanted: TextRequest, told: Told) -> Call:
    pool = request.app.state.pool
    jobs = models.answering_chat(wanted.chat.messages) if wanted.chat else CHAT
    model = models.choose(pool, asked.model, jobs)
    return Call(model, [wanted], TextAnswer(told), asked.keep_alive, threaded=True, names={"text": "content"})


def _written(told: Mapping[str, Any]) -> Iterator[bytes]:
    """The JSON text of an object, in pieces."""
    for number, (name, value) in enumerate(told.items()):
        yield f"{'{,'[number > 0]}{json.dumps(name)}:".encode()
        if isinstance(value, Iterator):
            before = b"["
            while part := list(itertools.islice(value, AT_ONCE)):
                yield before
                yield json.dumps(part, ensure_ascii=False)[1:-1].encode()
                before = b","
            yield b"[]" if before == b"[" else b"]"
        else:
            yield json.dumps(value, ensure_ascii=False).encode()
    yield b"}"


def bare(event: TextEvent) -> Mapping[str, Any]:
    """llama-server's tokens."""
    return {"tokens": iter(event.tokens)}


def with_pieces(event: TextEvent) -> Mapping[str, Any]:
    """llama-server's tokens with their texts; one that is a part of a character is a list of its bytes."""
    pairs = zip(event.tokens, event.pieces, strict=True)
    return {"tokens": ({"id": token, "piece": _piece(data)} for token, data in pairs)}


def counted(event: TextEvent) -> Mapping[str, Any]:
    """vLLM's tokens, with the number that the model reads at most."""
    texts = (data.decode(errors="replace") for data in event.pieces)
    told = {"count": len(event.tokens), "max_model_len": event.context, "tokens": iter(event.tokens)}
    return {**told, "token_strs": texts if event.pieces else None}


def joined(event: TextEvent) -> Mapping[str, Any]:
    """The text, as llama-server and as vLLM name it."""
    return {"content": event.text, "prompt": event.text}


def prompted(event: TextEvent) -> Mapping[str, Any]:
    return {"prompt": event.text}


def numbered(event: TextEvent) -> Mapping[str, Any]:
    """llama-server's count of a conversation's tokens."""
    return {"object": "response.input_tokens", "input_tokens": len(event.tokens)}


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
