"""The settings of a session: the object that clients change part by part, and the values in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.fields import Fields, clipped
from edgeserve.api.json_body import VALUE_BYTES, values
from edgeserve.api.limits import Limits
from edgeserve.api.realtime.items import CHAR_BYTES
from edgeserve.api.realtime.shape import Detection, Input, Output, Settings, SoundForm, Transcription
from edgeserve.dataclass import dataclass
from edgeserve.errors import InvalidRequest, TooLarge
from edgeserve.messages import Tool, ToolChoice
from edgeserve.talk import turns
from edgeserve.talk.forms import FORMS, Form

MAX_BYTES = 256 << 10
"""Bytes of a session's settings as JSON. A session keeps them as long as it lasts."""
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
    """Checked settings. ``written``: the object as the client reads it. ``held``: bytes of changed ones, at most."""

    written: Mapping[str, Any]
    settings: Settings
    held: int = 0

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
        data = json.dumps(written).encode()
        if (size := len(data)) > MAX_BYTES:
            raise TooLarge(f"{path} would have {size} bytes; the limit is {MAX_BYTES}: shorten instructions or tools")
        settings = Settings(Fields(written, f"{path}."), limits)
        config = Config(written, settings, CHAR_BYTES * size + VALUE_BYTES * values(data))
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
    def overhears(self) -> bool:
        """Whether the client gets words while the user speaks: in dictations, and where it says ``delay``."""
        wanted = self.transcription
        return wanted is not None and (bool(wanted.delay) or not self.talks)

    @property
    def detection(self) -> Detection | None:
        return self._input.turn_detection if self._input else None

    @property
    def answers_turns(self) -> bool:
        """Whether the end of a turn begins an answer."""
        return self.talks and self.detection is not None and self.detection.create_response

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
