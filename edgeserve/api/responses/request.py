"""The bodies of requests to /v1/responses."""

from __future__ import annotations

import functools
import json
from typing import Any

from starlette.requests import Request

from edgeserve.api import cache_salt, models
from edgeserve.api.adapters import Adapted
from edgeserve.api.attachments import Attachments
from edgeserve.api.conversation import MAX_FILES, Conversation
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.fragments import Fragment
from edgeserve.api.json_body import READS, SMALL
from edgeserve.api.json_schema import ENCODER
from edgeserve.api.limits import Limits, limits_of
from edgeserve.api.openai.accepted import Only, Unavailable
from edgeserve.api.openai.logprobs import MAX
from edgeserve.api.openai.response_format import FREE
from edgeserve.api.openai.sampling import MAX_TEMPERATURE
from edgeserve.api.openai.thinking import LEVELS, Wish
from edgeserve.api.question import MAX_TOKENS
from edgeserve.api.responses import turns
from edgeserve.api.responses.history import History, history, refers
from edgeserve.api.responses.owner import owner_of
from edgeserve.api.responses.store import ResponseStore, StoredItem
from edgeserve.api.responses.text import TextConfig
from edgeserve.api.responses.tools import FlatTools
from edgeserve.api.responses.values import Input, Metadata
from edgeserve.api.schema import Object, Record
from edgeserve.api.values import Enum, Flag, Ignored, Integer, Number, Text, Texts
from edgeserve.dataclass import dataclass
from edgeserve.errors import TooLarge
from edgeserve.messages import ChatRequest, Sampling
from edgeserve.residency.pool import Pool

MANY = 64
"""Items of a request that the event loop gathers itself. A thread gathers more."""
MAX_INCLUDED = 32
LONG, MOST_REPEATED = 64 << 10, 1 << 20
"""Characters that the event loop repeats itself, and that any response repeats. A stream repeats them three times."""
LOGPROBS = "message.output_text.logprobs"
"""The value of ``include`` that asks for log probabilities."""
ADVICE = "send the whole conversation in input, or previous_response_id"


class Reasoning(Record):
    effort = Enum("none turns thoughts off; other levels turn them on", tuple(LEVELS))
    summary = Ignored("accepted; the answer tells the thoughts themselves")
    generate_summary = Ignored("the older name of summary")

    def wish(self) -> Wish:
        return Wish.of_level(self.effort) if self.effort else Wish()


class ResponseStreamOptions(Record):
    include_obfuscation = Flag("accepted; it changes nothing here")


@dataclass(frozen=True, slots=True)
class Prompted:
    """The prompt of a request.

    - ``model``: id of the model that answers
    - ``chat``: the conversation
    - ``items``: the conversation as items to store
    """

    model: str
    chat: ChatRequest
    items: tuple[StoredItem, ...]


class Asked(Adapted, FlatTools):
    """The fields that make up a prompt."""

    ANY_OF = ("input", "previous_response_id")
    input = Input()
    instructions = Text("the system message before all others; a later request gives it anew")
    previous_response_id = Text("a stored response, whose conversation goes on", limit=NAME_CHARS)
    reasoning = Object("thoughts before the answer", Reasoning)
    text = Object("the form of the answer", TextConfig)
    truncation = Enum("accepted; a prompt that is too long is refused", ("auto", "disabled"))
    conversation = Unavailable(ADVICE)

    async def prompted(self, request: Request) -> Prompted:
        """Raises InvalidRequest and its kinds, and NotFound for an item that is not stored."""
        tools = self.declared()
        past = history(responses_of(request), owner_of(request), self.previous_response_id)
        large = len(past.past) + len(self.input) > MANY or past.size > SMALL or refers(self.input)
        gather = functools.partial(self._gathered, past, limits_of(request))
        kept, given = await READS.run(gather) if large else gather()
        messages = await given.whole(Attachments(request))
        pool: Pool = request.app.state.pool
        model = models.choose(pool, self.model, models.answering_chat(messages))
        wish = self.reasoning.wish() if self.reasoning else Wish()
        form = self.text.format if self.text else FREE
        chat = ChatRequest(
            messages,
            tools=tools,
            tool_choice=self.choice(),
            json_object=form.json_object,
            json_schema=form.json_schema,
            strict=form.strict,
            thinking=wish.on,
            variables=json.dumps({"reasoning_effort": wish.level}) if wish.level else "",
            salt=cache_salt.salt(request, self.prompt_cache_key),
            adapters=self.adapters(pool, model),
        )
        return Prompted(model, chat, kept)

    def _gathered(self, past: History, limits: Limits) -> tuple[tuple[StoredItem, ...], Conversation]:
        """The conversation, as items to store and as messages. Raises InvalidRequest, and NotFound for an item."""
        pairs = list(past.pairs(self.input, limits))
        given = turns.conversation(self.instructions, [item for _, item in pairs])
        if not pairs:
            raise self.error("input", "holds no message and no call")
        images = sum(one.kind == "picture" for one in given.pending)
        for count, noun, most in (
            (images, "images", limits.max_images),
            (len(given.pending) - images, "sounds and files", MAX_FILES),
        ):
            if count > most:
                raise self.error("input", f"holds {count} {noun}, with those before it; the limit is {most}")
        return tuple(one for one, _ in pairs), given


class ResponseTokens(Asked):
    """The body of POST /v1/responses/input_tokens."""


class ResponseRequest(Asked):
    """The body of POST /v1/responses."""

    stream = Flag("send the response in events, as it is made")
    stream_options = Object("accepted; it changes nothing here", ResponseStreamOptions)
    store = Flag("keep the response for previous_response_id", default=True)
    max_output_tokens = Integer("tokens of the answer at most, thoughts included", 1, MAX_TOKENS)
    temperature = Number("0 is greedy; left out: as configured", 0, MAX_TEMPERATURE)
    top_p = Number("nucleus sampling: the probability that the tokens considered have together", 0, 1)
    seed = Integer("makes answers repeatable; an extension", -(2**63), 2**63 - 1)
    top_logprobs = Integer("alternatives told with each token", 0, MAX)
    include = Texts(f"further parts of the answer: {LOGPROBS}; others change nothing", MAX_INCLUDED, chars=NAME_CHARS)
    metadata = Metadata()
    user = Text("the response repeats it", limit=NAME_CHARS)
    safety_identifier = Text("the response repeats it", limit=NAME_CHARS)
    max_tool_calls = Integer("accepted; the server calls no tools itself", 1, MAX_TOKENS)
    background = Only(False)
    prompt = Unavailable("the server has no stored prompts; send instructions and input")
    moderation = Unavailable("this server moderates nothing")
    service_tier = Ignored()
    context_management = Ignored("accepted; the server keeps the whole conversation")
    prompt_cache_retention = Ignored()
    prompt_cache_options = Ignored()
    client_metadata = Ignored("of Codex")

    def __init__(self, fields: Fields, limits: Limits) -> None:
        super().__init__(fields, limits)
        self._repeated = {name: self._text_of(name, value) for name, value in self._long().items()}
        """JSON of the fields that may be long, made here, where a thread reads a large body."""
        size = sum(map(len, self._repeated.values()))
        if size > MOST_REPEATED:
            longest, text = max(self._repeated.items(), key=lambda one: len(one[1]))
            both = f"{longest} has {len(text):,} characters, and {size:,} with the other fields that a response repeats"
            raise TooLarge(f"{both}; the limit is {MOST_REPEATED:,}: send fewer", param=longest)
        self.is_long = size > LONG
        """Whether the response repeats so much that a thread should write it."""

    def alternatives(self) -> int | None:
        """Alternatives to send with each token; None where the request asks for no log probabilities."""
        if self.top_logprobs is None:
            return 0 if LOGPROBS in self.include else None
        return self.top_logprobs

    def answered(self) -> dict[str, Any]:
        """The fields of a ``ChatRequest`` about the answer."""
        return {
            "max_tokens": self.max_output_tokens,
            "logprobs": self.alternatives(),
            "sampling": Sampling(temperature=self.temperature, top_p=self.top_p, seed=self.seed),
        }

    def told(self) -> dict[str, Any]:
        """The fields of the request that the response repeats."""
        effort = self.reasoning.effort if self.reasoning else ""
        return {
            "background": False,
            "instructions": self._repeated["instructions"],
            "max_output_tokens": self.max_output_tokens,
            "max_tool_calls": self.max_tool_calls,
            "parallel_tool_calls": self.parallel_tool_calls,
            "previous_response_id": self.previous_response_id or None,
            "prompt_cache_key": self.prompt_cache_key or None,
            "reasoning": {"effort": effort or None, "summary": None},
            "safety_identifier": self.safety_identifier or None,
            "service_tier": "default",
            "store": self.store,
            "temperature": self.temperature,
            "text": self._repeated["text"],
            "tool_choice": self._repeated["tool_choice"],
            "tools": self._repeated["tools"],
            "top_logprobs": self.top_logprobs or 0,
            "top_p": self.top_p,
            "truncation": "disabled",
            "user": self.user or None,
            "metadata": self.metadata,
        }

    def _long(self) -> dict[str, Any]:
        return {
            "instructions": self.instructions or None,
            "text": self.text.told() if self.text else {"format": {"type": "text"}},
            "tool_choice": self._given.raw("tool_choice") or "auto",
            "tools": [one.told() for one in self.functions],
        }

    def _text_of(self, name: str, value: Any) -> Fragment:
        """Raises InvalidRequest."""
        try:
            return Fragment("".join(ENCODER.iterencode(value)))
        except ValueError:  # 1e999 was read as infinite
            raise self.error(name, "holds a number beyond the range of a float") from None


def responses_of(request: Request) -> ResponseStore:
    store: ResponseStore = request.app.state.responses
    return store
