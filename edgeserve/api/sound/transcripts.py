"""Renderers of transcripts: json, text, srt, vtt, verbose_json, the native form, and events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api import failures, sse
from edgeserve.api.fragments import written
from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event, SegmentEvent, TranscriptEnd

DEPTH = 2
"""Levels of an answer that are written one by one: each segment and each word is a call."""


class Transcript:
    """Gathers segments and writes them at the end, here as OpenAI's ``json``. A thread should write whole answers.

    Two hours have 50,000 words, which take 0.1 s.
    """

    stream = False
    media_type = "application/json"

    def __init__(self) -> None:
        self.segments: list[SegmentEvent] = []
        self.ending = TranscriptEnd("en", 0.0)

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, SegmentEvent):
            self.segments.append(event)
        elif isinstance(event, TranscriptEnd):
            self.ending = event
        return b""

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments).strip()

    def end(self) -> bytes:
        return written(self.value(), DEPTH).encode()

    def value(self) -> Any:
        """The answer. Newer clients of OpenAI's expect its usage."""
        usage = {"type": "duration", "seconds": max(1, round(self.ending.duration))}
        return {"text": self.text, "usage": usage}

    def fail(self, error: EdgeserveError) -> bytes:
        return json.dumps(failures.body(error)).encode()


class Native(Transcript):
    def value(self) -> Any:
        segments = [{"start": one.start, "end": one.end, "text": one.text.strip()} for one in self.segments]
        return {"text": self.text, "duration": self.ending.duration, "segments": segments}


class Streamed(Transcript):
    """OpenAI's events: ``transcript.text.delta`` for each segment, then ``transcript.text.done`` with all text."""

    stream = True
    media_type = sse.MEDIA_TYPE

    def feed(self, index: int, event: Event) -> bytes:
        first = not self.segments
        super().feed(index, event)
        if not isinstance(event, SegmentEvent):
            return b""
        return sse.event({"type": "transcript.text.delta", "delta": event.text.lstrip() if first else event.text})

    def end(self) -> bytes:
        return sse.event({"type": "transcript.text.done", **super().value()})

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.event({"type": "error", **failures.body(error)})


class Verbose(Transcript):
    """OpenAI's ``verbose_json``. The text of a ``translated`` recording is English, whatever language was spoken."""

    def __init__(self, granularities: tuple[str, ...] = ("segment",), *, translated: bool = False) -> None:
        super().__init__()
        self.granularities = granularities
        self._translated = translated

    def value(self) -> Any:
        value: dict[str, Any] = {
            "task": "translate" if self._translated else "transcribe",
            "language": "en" if self._translated else self.ending.language,
            "duration": self.ending.duration,
            "text": self.text,
        }
        if "segment" in self.granularities:
            value["segments"] = [_segment(number, one) for number, one in enumerate(self.segments)]
        if "word" in self.granularities:
            words = [word for one in self.segments for word in one.words]
            value["words"] = [{"word": one.text.strip(), "start": one.start, "end": one.end} for one in words]
        return value


class Plain(Transcript):
    media_type = "text/plain"

    def end(self) -> bytes:
        return f"{self.text}\n".encode()


class Srt(Transcript):
    """SubRip."""

    media_type = "text/plain"

    def end(self) -> bytes:
        blocks = (
            f"{number}\n{_time(one.start, ',')} --> {_time(one.end, ',')}\n{one.text.strip()}\n"
            for number, one in enumerate(self.segments, start=1)
        )
        return "\n".join(blocks).encode()


class Vtt(Transcript):
    """WebVTT (W3C)."""

    media_type = "text/vtt"

    def end(self) -> bytes:
        blocks = (f"{_time(one.start, '.')} --> {_time(one.end, '.')}\n{one.text.strip()}\n" for one in self.segments)
        return "\n".join(["WEBVTT\n", *blocks]).encode()


FORMS: Mapping[str, Callable[[], Transcript]] = MappingProxyType(
    {"json": Transcript, "text": Plain, "srt": Srt, "vtt": Vtt, "verbose_json": Verbose}
)
"""Renderers by the name of the form."""
MEDIA_TYPES = tuple(dict.fromkeys(form().media_type for form in FORMS.values()))
"""Media types of the forms, the default's first."""


def _segment(number: int, one: SegmentEvent) -> dict[str, Any]:
    return {
        "id": number,
        "seek": int(one.start * 100),
        "start": one.start,
        "end": one.end,
        "text": one.text,
        "tokens": list(one.tokens),
        "temperature": one.temperature,
        "avg_logprob": one.avg_logprob,
        "compression_ratio": one.compression_ratio,
        "no_speech_prob": one.no_speech_prob,
    }


def _time(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
