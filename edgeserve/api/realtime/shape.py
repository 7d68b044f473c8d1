"""The settings of a session: the object that clients change part by part, and the values in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from edgeserve.api.fields import NAME_CHARS, Fields, clipped
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Object, Objects, Record
from edgeserve.api.tools import MAX_TOOLS, DeclaredFunction
from edgeserve.api.values import Enum, Flag, Ignored, Integer, Number, Text
from edgeserve.errors import InvalidRequest, NotSupported, TooLarge
from edgeserve.messages import Tool, ToolChoice
from edgeserve.talk import ending, turns
from edgeserve.talk.forms import FORMS, Form

MAX_BYTES = 256 << 10
"""Bytes of a session's settings as JSON. A session keeps them as long as it lasts."""
MAX_TOKENS = 1 << 20
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
    delay = Ignored()
    keywords = Ignored()
    languages = Ignored()


class Detection(Record):
    """``turn_detection``."""

    type = Enum("server_vad: silence ends a turn; semantic_vad: words do", ("server_vad", "semantic_vad"))
    threshold = Number("accepted; the gate follows the noise of the room", 0, 1, default=0.5)
    prefix_padding_ms = Integer("sound kept before speech", 0, 5_000, default=300)
    silence_duration_ms = Integer("silence that ends a turn", 100, 10_000, default=500)
    idle_timeout_ms = Integer("silence after an answer, after which the model speaks again", 1_000, 120_000)
    eagerness = Enum("of semantic_vad", tuple(ending.PAUSES), default="auto")
    create_response = Flag("the end of a turn begins an answer", default=True)
    interrupt_response = Flag("speech ends an answer", default=True)

    def rules(self) -> turns.Rules:
        prefix = self.prefix_padding_ms / 1000
        if self.type == "semantic_vad":
            return turns.Rules(ending.PAUSES[self.eagerness], prefix, semantic=True)
        return turns.Rules(self.silence_duration_ms / 1000, prefix)


class Input(Record):
    format = Object("form of the sound", SoundForm)
    transcription = Object("tells what the user says; null: the model alone hears it", Transcription)
    noise_reduction = Ignored()
    turn_detection = Object("null: the client commits the sound itself", Detection)


class Voice(Field[str]):
    """``voice``: a name, or OpenAI's object with an id."""

    def __init__(self) -> None:
        super().__init__("a voice of the model, or one of OpenAI's names", "")

    def read(self, fields: Fields, limits: Limits) -> str:
        given = fields.raw(self.name)
        if isinstance(given, dict):
            return fields.inner(given, f"{fields.full(self.name)}.").required_text("id", limit=NAME_CHARS)
        return fields.text(self.name, limit=NAME_CHARS)

    def schema(self, limits: Limits) -> dict[str, Any]:
        text = {"type": "string", "maxLength": NAME_CHARS}
        return {"oneOf": [text, {"type": "object", "properties": {"id": text}, "required": ["id"]}]}


class Output(Record):
    format = Object("form of the sound", SoundForm)
    voice = Voice()
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


NEW: Mapping[str, Any] = MappingProxyType(
    {
        "type": "realtime",
        "model": "",
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24_000},
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                    "idle_timeout_ms": None,
                    "create_response": True,
                    "interrupt_response": True,
                },
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24_000}, "voice": "alloy", "speed": 1.0},
        },
        "include": None,
        "tracing": None,
        "truncation": "auto",
    }
)
"""The settings of a new session."""


@dataclass(frozen=True, slots=True)
class Config:
    """Checked settings. ``written``: the object as the client reads it."""

    written: Mapping[str, Any]
    settings: Settings

    @classmethod
    def new(cls, limits: Limits, model: str = "", *, transcription: bool = False) -> Config:
        """``model``: the one that answers, and in a session of transcription the one that transcribes."""
        written = copy.deepcopy(dict(NEW))
        if transcription:
            written["type"] = "transcription"
            written["audio"]["input"]["transcription"] = {"model": model} if model else {}
        else:
            written["model"] = model
        return cls(written, Settings(Fields(written, "session."), limits))

    def changed(self, change: Mapping[str, Any], limits: Limits, path: str = "session") -> Config:
        """The settings with a change; nested objects merge. Raises InvalidRequest and TooLarge."""
        written = merged(self.written, change)
        if (size := len(json.dumps(written))) > MAX_BYTES:
            raise TooLarge(f"{path} would have {size} bytes; the limit is {MAX_BYTES}: shorten instructions or tools")
        settings = Settings(Fields(written, f"{path}."), limits)
        config = Config(written, settings)
        config.check(path)
        return config

    def check(self, path: str) -> None:
        """Read what only a use would read. Raises InvalidRequest."""
        _ = self.source, self.target, self.rules
        names = [tool.name for tool in self.tools]
        if len(set(names)) < len(names):
            raise InvalidRequest(f"{path}.tools names a function twice", param=f"{path}.tools")
        if (wanted := self.settings.tool_choice[1]) and wanted not in names:
            text = f"{path}.tool_choice names {clipped(wanted, 80)!r}, which is none of the tools"
            raise InvalidRequest(text, param=f"{path}.tool_choice")

    @property
    def talks(self) -> bool:
        return self.settings.type == "realtime"

    @property
    def speaks(self) -> bool:
        """Whether answers are sound."""
        return self.settings.output_modalities == "audio"

    @property
    def _input(self) -> Input | None:
        return self.settings.audio.input if self.settings.audio else None

    @property
    def _output(self) -> Output | None:
        return self.settings.audio.output if self.settings.audio else None

    @property
    def source(self) -> Form:
        """Form of the user's sound."""
        return _form(self._input.format if self._input else None)

    @property
    def target(self) -> Form:
        """Form of answers."""
        return _form(self._output.format if self._output else None)

    @property
    def transcription(self) -> Transcription | None:
        return self._input.transcription if self._input else None

    @property
    def detection(self) -> Detection | None:
        return self._input.turn_detection if self._input else None

    @property
    def rules(self) -> turns.Rules | None:
        return self.detection.rules() if self.detection else None

    @property
    def voice(self) -> str:
        return self._output.voice if self._output else ""

    @property
    def speed(self) -> float:
        return self._output.speed if self._output else 1.0

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(one.tool() for one in self.settings.tools)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """Tools that an answer may call."""
        return () if self.settings.tool_choice[0] == "none" else self.tools

    @property
    def tool_choice(self) -> ToolChoice:
        mode, name = self.settings.tool_choice
        if name:
            return ToolChoice(required=True, name=name, parallel=False)
        required = mode == "required" and bool(self.tools)
        return ToolChoice(required=required, parallel=self.settings.parallel_tool_calls)


def _form(given: SoundForm | None) -> Form:
    return given.form() if given else FORMS["audio/pcm"]


def merged(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Both, objects inside too. A form of sound is whole: its rate goes with its type."""
    new = dict(old)
    for name, value in change.items():
        before = new.get(name)
        both = isinstance(before, Mapping) and isinstance(value, Mapping) and name != "format"
        new[name] = merged(before, value) if both else value  # type: ignore[arg-type]
    return new
