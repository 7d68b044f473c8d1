"""Requests to the engines and the events they answer with: frozen, picklable, free of any library.

Audio travels as bytes so that neither side needs an array library to hold it: input is sound.py's, output int16
little-endian mono at the event's own rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from edgeserve.sound import INPUT_SAMPLE_RATE as INPUT_SAMPLE_RATE
from edgeserve.sound import PIECE_SECONDS as PIECE_SECONDS
from edgeserve.sound import Audio as Audio
from edgeserve.sound import Pcm as Pcm

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """One encoded picture (the bytes of a file), already checked. ``param``: the field of the request that holds it,
    for errors of a decoder; ``pixels``: how many it has."""

    data: bytes = field(repr=False)
    param: str = field(default="image", repr=False, compare=False)
    pixels: int = field(default=0, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model wants called. ``arguments`` is the text of a JSON object; ``id`` what the client knows
    the call by, empty where it has none yet."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. An assistant's may hold calls; a ``tool``'s answers the call ``tool_call_id``."""

    role: Role
    parts: tuple[TextPart | ImagePart, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ImagePart))


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. None means: the model's own default (``ModelSpec.options``).

    ``temperature`` 0 is greedy. ``seed`` None draws a fresh one. ``logit_bias`` maps token ids to what is added to
    their logits, -100 to 100.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repeat_penalty: float | None = None
    seed: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may ask for. ``parameters``: the JSON schema of its arguments, as text."""

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """``required``: the answer is a call; ``name``: of this tool and no other; ``parallel``: it may be several."""

    required: bool = False
    name: str | None = None
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to continue, or, with ``prompt``, raw text or tokens to continue without the chat template.

    ``logprobs``: how many alternatives to tell for each token beside its own probability; None tells neither.
    ``max_tokens`` None means until the model ends, the context is full or the hard cap is reached. ``stop`` strings
    end the answer and are not part of it. ``json_object`` constrains the answer to one JSON object, ``json_schema``
    (its text) to an instance of that schema. With ``tools`` the answer may be calls of them. ``salt``: caches of past
    prompts serve prompts of the same salt only.
    """

    messages: tuple[Message, ...] = ()
    prompt: str | tuple[int, ...] | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    json_object: bool = False
    logprobs: int | None = None
    json_schema: str | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    salt: str = ""

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(image for message in self.messages for image in message.images)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that the model might say: its bytes, perhaps part of a character, and the natural logarithm of its
    probability, before temperature, penalties and biases."""

    data: bytes
    logprob: float

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The token that was said, and the likeliest in its place, the likeliest first."""

    token: Candidate
    top: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Text that became certain: whole characters, never a part of a stop string. May cover several tokens, whose
    ``logprobs`` these are, when they were asked for."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasoningEvent:
    """The same of what a model thinks before its answer, without the tags around it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """A whole call, its arguments checked to be a JSON object."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """The last event of a chat. ``cached_tokens`` of the prompt came from a prefix already in the context;
    ``reasoning_tokens`` of the completion went into thoughts."""

    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


ChatEvent = TokenEvent | ReasoningEvent | ToolCallEvent | FinishEvent


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """Texts, or their tokens, to turn into vectors."""

    inputs: tuple[str | tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class EmbeddingEvent:
    """The next input as a vector of length 1: float32 little-endian. ``tokens``: how many the input has."""

    vector: bytes = field(repr=False)
    tokens: int


@dataclass(frozen=True, slots=True)
class TranscribeRequest:
    """Speech to write down; ``language`` an ISO 639-1 code or None. ``translate``: into English, whatever is spoken."""

    audio: Audio = field(repr=False)
    language: str | None = None
    prompt: str | None = None
    temperature: float = 0.0
    word_timestamps: bool = False
    translate: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class SegmentEvent:
    """One stretch of speech; times in seconds from the start of the audio. ``text`` keeps its leading space.

    Figures that a runtime cannot give stay at their defaults.
    """

    start: float
    end: float
    text: str
    tokens: tuple[int, ...] = ()
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 0.0
    no_speech_prob: float = 0.0
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class TranscriptEnd:
    """The last event of a transcription: the language it was taken for and the audio's length in seconds."""

    language: str
    duration: float


TranscribeEvent = SegmentEvent | TranscriptEnd


@dataclass(frozen=True, slots=True)
class SpeakRequest:
    """Text to say. ``voice`` None is the model's default; ``speed`` 1.0 is its natural pace (0.25 to 4.0)."""

    text: str
    voice: str | None = None
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class AudioEvent:
    """A piece of speech: int16 little-endian mono samples at ``sample_rate`` Hz."""

    pcm: bytes = field(repr=False)
    sample_rate: int

    def parts(self, seconds: float) -> Iterator[AudioEvent]:
        """The same in pieces of at most so long."""
        step = 2 * int(seconds * self.sample_rate)
        for start in range(0, len(self.pcm), step):
            yield AudioEvent(self.pcm[start : start + step], self.sample_rate)


Request = ChatRequest | EmbedRequest | TranscribeRequest | SpeakRequest
Event = ChatEvent | EmbeddingEvent | TranscribeEvent | AudioEvent
