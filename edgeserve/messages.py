"""Requests to the engines and the events of their answers: frozen, picklable, free of any library.

Audio is bytes, so that neither side needs an array library. Input has the forms of ``sound.py``. Output is int16
little-endian mono at the event's own rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from edgeserve.slots import SlotEvent as SlotEvent
from edgeserve.slots import SlotRequest as SlotRequest
from edgeserve.sound import INPUT_SAMPLE_RATE as INPUT_SAMPLE_RATE
from edgeserve.sound import PIECE_SECONDS as PIECE_SECONDS
from edgeserve.sound import Audio as Audio
from edgeserve.sound import Pcm as Pcm

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls"]
Count = Literal["", "first", "each", "only"]


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture, already checked: the bytes of a file, or with a ``size`` its pixels.

    - ``param``: the field of the request, for errors of a decoder
    - ``pixels``: width times height
    - ``size``: width and height; the data are then rows of RGB, three bytes a pixel
    """

    data: bytes | memoryview = field(repr=False)
    param: str = field(default="image", repr=False, compare=False)
    pixels: int = field(default=0, repr=False, compare=False)
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model wants called. ``arguments`` is the text of a JSON object.

    ``id`` names the call to the client, and is empty for a call without a name yet.
    """

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. An assistant's message may hold calls; a tool's message answers the call ``tool_call_id``.

    ``reasoning``: the thoughts before an assistant's message. The chat template keeps them or leaves them out.
    """

    role: Role
    parts: tuple[TextPart | ImagePart, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    reasoning: str = ""

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ImagePart))


@dataclass(frozen=True, slots=True)
class Sampling:
    """Parameters of sampling. None stands for the model's own default (``ModelSpec.options``).

    - ``temperature``: 0 is greedy
    - ``seed``: without one the engine draws one
    - ``logit_bias``: token ids with numbers to add to their logits, -100 to 100
    - ``top_k``: 0 considers all tokens
    - ``repeat_last_n``: latest tokens of the answer that penalties apply to; 0 none, -1 all
    - ``mirostat``: 1 or 2 take the place of the filters (top_k, top_p, min_p, typical_p, xtc, top_n_sigma); 0 is off
    - ``dynatemp_range``: the temperature varies by so much in both directions, by the entropy of the next token
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
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    repeat_last_n: int | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. ``parameters`` is the JSON schema of the arguments, as text.

    ``strict``: a keyword that a grammar cannot express is an error, and is loosened otherwise.
    """

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The choice among tools.

    - ``required``: the answer must be a call
    - ``name``: the only tool that the answer may call
    - ``parallel``: the answer may be several calls
    """

    required: bool = False
    name: str | None = None
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to continue; with ``prompt``, raw text or tokens to continue without the chat template.

    - ``suffix``: text behind the gap after a prompt of text; the answer fills the gap
    - ``snippets``: names and texts of other files of the repository, for a prompt with a suffix; None: it has none
    - ``max_tokens``: tokens of the answer at most; None: until the model ends, or the context or the cap is full; 0:
      the prompt is read, and the answer is empty
    - ``stop``: strings that end the answer and are no part of it
    - ``json_object``: constrain the answer to one JSON object
    - ``logprobs``: alternatives to tell for each token beside its own log probability; None: tell neither
    - ``json_schema``: constrain the answer to an instance of this schema, given as text
    - ``strict``: a keyword of the schema that a grammar cannot express is an error; else it is loosened, and the answer
      begins with a LoosenedEvent
    - ``grammar``: constrain the answer to this grammar in llama.cpp's notation (GBNF)
    - ``pattern``: constrain the answer to this regular expression
    - ``choices``: constrain the answer to one of these texts
    - ``tools``: the answer may call these
    - ``salt``: caches of past prompts serve prompts of the same salt only
    - ``adapters``: roles and scales of the model's adapters to apply; None: those that every answer uses
    - ``thinking``: whether the model thinks before its answer; None: as its chat template does
    - ``variables``: further variables of the chat template, as the text of a JSON object
    - ``continues``: the last message is the beginning of the answer, which goes on there
    - ``generation_prompt``: the chat template ends in the beginning of the assistant's turn
    - ``min_tokens``: the model cannot end its answer before so many tokens
    - ``ignore_eos``: the model cannot end its answer
    - ``stop_tokens``: tokens that end the answer and are no part of it
    - ``context``: tokens of prompt and answer together at most; None: as many as the context holds
    - ``count``: "first": the answer begins with a PromptEvent, before the prompt is read; "each": another
      follows each step that reads the prompt; "only": the answer is the
      PromptEvent alone, also for a prompt that the context does not hold
    - ``truncate``: leave the oldest turns out where the conversation is too long
    """

    messages: tuple[Message, ...] = ()
    prompt: str | tuple[int, ...] | None = None
    suffix: str | None = None
    snippets: tuple[tuple[str, str], ...] | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    json_object: bool = False
    logprobs: int | None = None
    json_schema: str | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
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
    the stop string that ended the answer.
    """

    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    stop: str = ""


@dataclass(frozen=True, slots=True)
class LoosenedEvent:
    """The first event of an answer that may break its schema.

    ``keywords``: those that the grammar leaves out, such as "response_format: uniqueItems at properties/tags".
    """

    keywords: tuple[str, ...]


ChatEvent = TokenEvent | ReasoningEvent | ToolCallEvent | FinishEvent | LoosenedEvent | PromptEvent


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """Texts, or their tokens, to turn into vectors. ``adapters`` as in ``ChatRequest``. ``cut``: cut longer ones."""

    inputs: tuple[str | tuple[int, ...], ...]
    adapters: tuple[tuple[str, float], ...] | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class EmbeddingEvent:
    """The next input as a vector of length 1, float32 little-endian. The input has ``tokens`` tokens."""

    vector: bytes = field(repr=False)
    tokens: int


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """Documents to judge by a query.

    - ``max_tokens``: tokens of the query with one document at most; None: as many as the model reads
    - ``max_document_tokens``: tokens of one document at most; None: as many as there is room for
    - ``cut``: cut longer documents at their end; without it, one is an error
    """

    query: str
    documents: tuple[str, ...]
    max_tokens: int | None = None
    max_document_tokens: int | None = None
    cut: bool = True


@dataclass(frozen=True, slots=True)
class RerankEvent:
    """The relevance of the next document.

    - ``logit``: higher is more relevant; its sigmoid is a probability
    - ``tokens``: tokens that the model read, the query with the document
    - ``cut``: the document was cut
    """

    logit: float
    tokens: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class TranscribeRequest:
    """Speech to write down. ``language`` is an ISO 639-1 code or None. ``translate`` asks for English text."""

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
    """The last event of a transcription: the recognised language, and the length of the audio in seconds."""

    language: str
    duration: float


TranscribeEvent = SegmentEvent | TranscriptEnd


@dataclass(frozen=True, slots=True)
class SpeakRequest:
    """Text to say. ``voice`` None is the model's default. ``speed`` 1.0 is the voice's natural pace (0.25 to 4.0)."""

    text: str
    voice: str | None = None
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class AudioEvent:
    """A piece of speech: int16 little-endian mono samples at ``sample_rate`` Hz."""

    pcm: bytes = field(repr=False)
    sample_rate: int

    def parts(self, seconds: float) -> Iterator[AudioEvent]:
        """The event in pieces of at most so many seconds."""
        step = 2 * int(seconds * self.sample_rate)
        for start in range(0, len(self.pcm), step):
            yield AudioEvent(self.pcm[start : start + step], self.sample_rate)


@dataclass(frozen=True, slots=True)
class TextRequest:
    """Text to show as a language model reads it; the model answers nothing.

    One of these: ``chat``, a conversation to write as a prompt; ``text``, to cut into tokens; ``tokens``, to join.

    - ``add_special``: add the model's own first and last tokens to a text, such as BOS
    - ``parse_special``: texts of control tokens become these tokens
    - ``pieces``: tell the bytes of each token
    """

    chat: ChatRequest | None = None
    text: str | None = None
    tokens: tuple[int, ...] = ()
    add_special: bool = False
    parse_special: bool = True
    pieces: bool = False


@dataclass(frozen=True, slots=True)
class TextEvent:
    """The answer to a TextRequest: the prompt, or the joined tokens; the tokens; their bytes; tokens of the context."""

    text: str = ""
    tokens: tuple[int, ...] = ()
    pieces: tuple[bytes, ...] = ()
    context: int = 0


Request = ChatRequest | EmbedRequest | RerankRequest | TranscribeRequest | SpeakRequest | SlotRequest | TextRequest
Event = ChatEvent | EmbeddingEvent | RerankEvent | TranscribeEvent | AudioEvent | SlotEvent | TextEvent
