"""Requests to the engines and the events of their answers: frozen, picklable, free of any library.

Audio is bytes, so that neither side needs an array library. Input has the forms of ``sound.py``. Output is int16
little-endian mono at the event's own rate.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from edgeserve.chat_parts import ImagePart as ImagePart
from edgeserve.chat_parts import Message as Message
from edgeserve.chat_parts import Role as Role
from edgeserve.chat_parts import Sampling as Sampling
from edgeserve.chat_parts import TextPart as TextPart
from edgeserve.chat_parts import Tool as Tool
from edgeserve.chat_parts import ToolCall as ToolCall
from edgeserve.chat_parts import ToolChoice as ToolChoice
from edgeserve.dataclass import dataclass
from edgeserve.lists import EmbeddingEvent as EmbeddingEvent
from edgeserve.lists import EmbedRequest as EmbedRequest
from edgeserve.lists import RerankEvent as RerankEvent
from edgeserve.lists import RerankRequest as RerankRequest
from edgeserve.slots import SlotEvent as SlotEvent
from edgeserve.slots import SlotRequest as SlotRequest
from edgeserve.sound import INPUT_SAMPLE_RATE as INPUT_SAMPLE_RATE
from edgeserve.sound import PIECE_SECONDS as PIECE_SECONDS
from edgeserve.sound import Audio as Audio
from edgeserve.sound import Pcm as Pcm
from edgeserve.speech import AudioEvent as AudioEvent
from edgeserve.speech import DetectRequest as DetectRequest
from edgeserve.speech import DiarizeRequest as DiarizeRequest
from edgeserve.speech import Rest as Rest
from edgeserve.speech import SegmentEvent as SegmentEvent
from edgeserve.speech import SpeakerEvent as SpeakerEvent
from edgeserve.speech import SpeakRequest as SpeakRequest
from edgeserve.speech import SpeechChances as SpeechChances
from edgeserve.speech import TranscribeEvent as TranscribeEvent
from edgeserve.speech import TranscribeRequest as TranscribeRequest
from edgeserve.speech import TranscriptEnd as TranscriptEnd
from edgeserve.speech import Word as Word

FinishReason = Literal["stop", "length", "tool_calls"]
Count = Literal["", "first", "each", "only"]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to continue; with ``prompt``, raw text or tokens to continue without the chat template.

    - ``suffix``: text behind the gap after a prompt of text; the answer fills the gap
    - ``snippets``: names and texts of other files of the repository, for a prompt with a suffix; None: it has none
    - ``max_tokens``: tokens of the answer at most; None: until the model ends, or the context or the cap is full; 0:
      the prompt is read, and the answer is empty
    - ``stop``: strings that end the answer and are no part of it
    - ``json_object``: constrain the answer to one JSON object
    - ``logprobs``: alternatives to return for each token beside its own log probability; None: neither
    - ``json_schema``: constrain the answer to an instance of this schema, given as text
    - ``strict``: a keyword of the schema that a grammar cannot express is an error; else it is loosened, and the answer
      begins with a LoosenedEvent
    - ``grammar``: constrain the answer to this grammar in llama.cpp's notation (GBNF)
    - ``pattern``: constrain the answer to this regular expression
    - ``choices``: constrain the answer to one of these texts
    - ``tools``: the answer may call these
    - ``salt``: the client, whose share of the caches it takes, a slash, and the scope, within which prompts share
    - ``adapters``: roles and scales of the model's adapters to apply; None: those that every answer uses
    - ``thinking``: whether the model thinks before its answer; None: as its chat template does
    - ``variables``: further variables of the chat template, as the text of a JSON object
    - ``continues``: the last message is the beginning of the answer, which continues there
    - ``generation_prompt``: the chat template ends in the beginning of the assistant's turn
    - ``min_tokens``: the model cannot end its answer before so many tokens
    - ``ignore_eos``: the model cannot end its answer
    - ``stop_tokens``: tokens that end the answer and are no part of it
    - ``context``: tokens of prompt and answer together at most; None: as many as the context holds
    - ``count``: "first": the answer begins with a PromptEvent, before the prompt is read; "each": another follows
      each step that reads the prompt; "only": nothing follows, and the context need not hold the prompt
    - ``truncate``: leave the oldest turns out where the conversation is too long
    - ``slot``: number of the slot that shall hold the conversation; -1: any
    - ``ahead``: nobody waits for it: the prompt is read in short pieces, so that other requests wait for less
    """

    messages: tuple[Message, ...] = ()
    prompt: str | tuple[int, ...] | None = None
    suffix: str | None = None
    snippets: tuple[tuple[str, str], ...] | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    json_object: bool = False
    logprobs: int | None = None
    json_schema: str | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    salt: str = ""
    adapters: tuple[tuple[str, float], ...] | None = None
    strict: bool = False
    grammar: str | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    thinking: bool | None = None
    variables: str = ""
    continues: bool = False
    generation_prompt: bool = True
    min_tokens: int = 0
    ignore_eos: bool = False
    stop_tokens: tuple[int, ...] = ()
    context: int | None = None
    count: Count = ""
    truncate: bool = False
    slot: int = -1
    ahead: bool = False

    @property
    def shaped(self) -> bool:
        """Whether a grammar holds the whole answer, tools aside."""
        forms = self.json_schema, self.grammar, self.pattern
        return self.json_object or bool(self.choices) or any(one is not None for one in forms)

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(image for message in self.messages for image in message.images)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that the model might say, as bytes, which may be part of a character.

    ``logprob`` is the natural logarithm of its probability before temperature, penalties and biases.
    """

    data: bytes
    logprob: float

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The token of the answer, and the likeliest tokens in its place, the likeliest first."""

    token: Candidate
    top: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Text that became certain: whole characters, never a part of a stop string.

    The text may cover several tokens. ``logprobs`` holds one entry for each token, if the request asks for them.
    """

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasoningEvent:
    """Text of a model's reasoning before its answer, without the tags around it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """A whole call. Its arguments are a JSON object."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class PromptEvent:
    """The size of the prompt. ``cached_tokens`` of it come from a cache, and ``computed_tokens`` were read so far."""

    tokens: int
    cached_tokens: int = 0
    computed_tokens: int = 0


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """The last event of a chat.

    ``cached_tokens`` of the prompt came from a cache. ``reasoning_tokens`` of the completion are reasoning. ``stop``:
    the stop string that ended the answer. ``slot``: number of the slot that holds the conversation; -1: none.
    """

    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    stop: str = ""
    slot: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class LoosenedEvent:
    """The first event of an answer that may break its schema.

    ``keywords``: those that the grammar leaves out, such as "response_format: uniqueItems at properties/tags".
    """

    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """The prompt was read, and the answer has begun, of which nothing can be told yet. No reader gets this."""


ChatEvent = TokenEvent | ReasoningEvent | ToolCallEvent | FinishEvent | LoosenedEvent | PromptEvent | ReadEvent


LONG_CHARS = 8192
"""Characters, or tokens, that a model reads in some 10 ms."""


@dataclass(frozen=True, slots=True)
class TextRequest:
    """Text to show as a language model reads it; the model answers nothing.

    One of these: ``chat``, a conversation to write as a prompt; ``text``, to cut into tokens; ``tokens``, to join.

    - ``add_special``: add the model's own first and last tokens to a text, such as BOS
    - ``parse_special``: texts of control tokens become these tokens
    - ``pieces``: return the bytes of each token
    """

    chat: ChatRequest | None = None
    text: str | None = None
    tokens: tuple[int, ...] = ()
    add_special: bool = False
    parse_special: bool = True
    pieces: bool = False

    @property
    def is_long(self) -> bool:
        """Whether reading takes long enough to delay the preparation of other requests: 10 ms and more."""
        said = self.chat.messages if self.chat is not None else ()
        texts = len(self.text or "") + sum(len(one.text) for one in said)
        return texts > LONG_CHARS or len(self.tokens) > LONG_CHARS


@dataclass(frozen=True, slots=True)
class TextEvent:
    """The answer to a TextRequest: the prompt, or the joined tokens; the tokens; their bytes; tokens of the context."""

    text: str = ""
    tokens: tuple[int, ...] = ()
    pieces: tuple[bytes, ...] = ()
    context: int = 0


SpeechRequest = TranscribeRequest | DiarizeRequest | SpeakRequest
ContextRequest = ChatRequest | EmbedRequest | SlotRequest | TextRequest
ContextEvent = ChatEvent | EmbeddingEvent | SlotEvent | TextEvent
Request = ContextRequest | RerankRequest | SpeechRequest
Event = ContextEvent | RerankEvent | TranscribeEvent | SpeakerEvent | AudioEvent | Rest
