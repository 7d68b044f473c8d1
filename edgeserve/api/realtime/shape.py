"""The fields of a session's settings."""

from __future__ import annotations

from typing import Any

from edgeserve.api.fields import NAME_CHARS, Fields, clipped
from edgeserve.api.limits import Limits
from edgeserve.api.question import MAX_TOKENS
from edgeserve.api.schema import Field, Object, Objects, Record
from edgeserve.api.sound.voices import VoiceName
from edgeserve.api.tools import MAX_TOOLS, DeclaredFunction
from edgeserve.api.values import Enum, Flag, Ignored, Integer, Number, Text
from edgeserve.errors import NotSupported
from edgeserve.messages import Tool
from edgeserve.talk import ending, turns
from edgeserve.talk.forms import FORMS, Form

CHOICES = ("auto", "none", "required")


class SoundForm(Record):
    type = Enum("audio/pcm is 16-bit little-endian at 24 kHz; the others are G.711 at 8 kHz", tuple(FORMS))
    rate = Integer("24000 for audio/pcm", 8_000, 48_000)

    def form(self) -> Form:
        """Raises InvalidRequest for a rate that the form does not have."""
        form = FORMS[self.type or "audio/pcm"]
        if self.rate not in (None, form.rate):
            raise self.error("rate", f"must be {form.rate}, the rate of {form.name} here, not {self.rate}")
        return form


class Transcription(Record):
    model = Text("the model that transcribes; left out: the default", limit=NAME_CHARS)
    language = Text("of the speech; left out: the model recognises it", limit=NAME_CHARS)
    prompt = Text("words that the model may expect", limit=4096)
    delay = Text("given: words come while the user speaks, also in a conversation", limit=NAME_CHARS)
    keywords = Ignored()
    languages = Ignored()


class Detection(Record):
    """``turn_detection``."""

    type = Enum("server_vad: silence ends a turn; semantic_vad: words do", ("server_vad", "semantic_vad"))
    threshold = Number("probability from which a sound is speech; higher asks for clearer speech", 0, 1, default=0.5)
    prefix_padding_ms = Integer("sound kept before speech", 0, 5_000, default=300)
    silence_duration_ms = Integer("silence that ends a turn", 100, 10_000, default=500)
    idle_timeout_ms = Integer("silence after an answer, after which the model speaks again", 1_000, 120_000)
    eagerness = Enum("of semantic_vad", tuple(ending.PAUSES), default="auto")
    create_response = Flag("the end of a turn begins an answer", default=True)
    interrupt_response = Flag("speech ends an answer", default=True)

    def rules(self) -> turns.Rules:
        prefix = self.prefix_padding_ms / 1000
        if self.type == "semantic_vad":
            pause = ending.LEAST_PAUSES[self.eagerness]
            return turns.Rules(ending.PAUSES[self.eagerness], prefix, semantic=True, pause=pause)
        return turns.Rules(self.silence_duration_ms / 1000, prefix, self.threshold)


class Input(Record):
    format = Object("form of the sound", SoundForm)
    transcription = Object("tells what the user says; null: the model alone hears it", Transcription)
    noise_reduction = Ignored()
    turn_detection = Object("null: the client commits the sound itself", Detection)


class Output(Record):
    format = Object("form of the sound", SoundForm)
    voice = VoiceName("a voice of the model, or one of OpenAI's names")
    speed = Number("pace; 1 is the voice's own", 0.25, 4, default=1.0)


class Sound(Record):
    input = Object("the user's sound", Input)
    output = Object("the answers' sound", Output)


class Function(DeclaredFunction):
    """A tool. Realtime writes its fields without a ``function`` around them."""

    type = Text("function", limit=NAME_CHARS)

    def tool(self) -> Tool:
        if self.type not in ("", "function"):
            field = self._given.full("type")
            raise NotSupported(f"{field} must be function, not {clipped(self.type, 40)!r}", param=field)
        return super().tool()


class ToolField(Field[tuple[str, str]]):
    """``tool_choice``: a mode and the name of a function, one of them empty."""

    def __init__(self) -> None:
        super().__init__("auto, none, required, or {type: function, name}", ("auto", ""))

    def read(self, fields: Fields, limits: Limits) -> tuple[str, str]:
        given = fields.raw(self.name)
        if isinstance(given, dict):
            inner = fields.inner(given, f"{fields.full(self.name)}.")
            return "", inner.required_text("name", limit=NAME_CHARS)
        if given in CHOICES:
            return str(given), ""
        raise fields.error(self.name, "must be auto, none, required or an object with the name of a function")

    def schema(self, limits: Limits) -> dict[str, Any]:
        named = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return {"oneOf": [{"enum": list(CHOICES)}, named]}


class Most(Field[int | None]):
    """``max_output_tokens``: a number, or "inf"."""

    def __init__(self) -> None:
        super().__init__('tokens of an answer at most; "inf": as many as fit', None)

    def read(self, fields: Fields, limits: Limits) -> int | None:
        return None if fields.raw(self.name) == "inf" else fields.integer(self.name, 1, MAX_TOKENS)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"const": "inf"}, {"type": "integer", "minimum": 1, "maximum": MAX_TOKENS}]}


class Modalities(Field[str]):
    """``output_modalities``: ["audio"] or ["text"]. Audio comes with its text, so that both together are audio."""

    def __init__(self) -> None:
        super().__init__('["audio"] or ["text"]', "audio")

    def read(self, fields: Fields, limits: Limits) -> str:
        given = fields.texts(self.name, 2)
        if not given or not set(given) <= {"audio", "text"}:
            raise fields.error(self.name, 'must be ["audio"] or ["text"]')
        return "audio" if "audio" in given else "text"

    def schema(self, limits: Limits) -> dict[str, Any]:
        item = {"enum": ["audio", "text"]}
        return {"type": "array", "items": item, "minItems": 1, "maxItems": 2}


class Settings(Record):
    """All settings of a session, or of one response."""

    type = Enum("realtime talks; transcription only listens", ("realtime", "transcription"), default="realtime")
    model = Text("the model that answers; left out: the default", limit=NAME_CHARS)
    output_modalities = Modalities()
    instructions = Text("the system's message", limit=lambda limits: limits.max_text_chars)
    tools = Objects("functions that the model may call", Function, empty=True, limit=MAX_TOOLS)
    tool_choice = ToolField()
    max_output_tokens = Most()
    temperature = Number("0 is greedy; left out: as configured", 0, 2)
    parallel_tool_calls = Flag("an answer may be several calls", default=True)
    audio = Object("sound in and out", Sound)
    include = Ignored()
    tracing = Ignored()
    truncation = Ignored()
    prompt = Ignored()
    reasoning = Ignored()
    id = Ignored()
    object = Ignored()
    expires_at = Ignored()
