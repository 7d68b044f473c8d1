"""Renderers of transcripts with speakers: OpenAI's ``diarized_json``, whole and as events, and ``verbose_json``."""

from __future__ import annotations

from typing import Any

from edgeserve.api import failures, sse
from edgeserve.api.sound.speakers import Speakers
from edgeserve.api.sound.transcripts import Transcript, Verbose
from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event, SegmentEvent

FORM = "diarized_json"
SEGMENT = "transcript.text.segment"


class Diarized(Transcript):
    """Segments of one speaker each. ``said``: their texts as they follow one another."""

    def __init__(self, speakers: Speakers) -> None:
        super().__init__()
        self._speakers = speakers
        self.parts: list[dict[str, Any]] = []
        self.said: list[str] = []

    def feed(self, index: int, event: Event) -> bytes:
        super().feed(index, event)
        if isinstance(event, SegmentEvent):
            for speaker, part in self._speakers.split(event):
                self.parts.append(_segment(len(self.parts) + 1, speaker, part))
                self.said.append(part.text)
        return b""

    def value(self) -> Any:
        plain = super().value()
        whole = {"task": "transcribe", "duration": self.ending.duration, "text": self.text, "segments": self.parts}
        return whole | {"usage": plain["usage"]}


class DiarizedEvents(Diarized):
    """``transcript.text.delta`` and ``transcript.text.segment`` for each segment, then ``transcript.text.done``."""

    stream = True
    media_type = sse.MEDIA_TYPE

    def feed(self, index: int, event: Event) -> bytes:
        before = len(self.parts)
        super().feed(index, event)
        return b"".join(map(self._events, range(before, len(self.parts))))

    def end(self) -> bytes:
        whole = self.value()
        return sse.event({"type": "transcript.text.done", "text": whole["text"], "usage": whole["usage"]})

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.event({"type": "error", **failures.body(error)})

    def _events(self, number: int) -> bytes:
        """The deltas joined are the text: the space between two segments is the model's, if there is one."""
        part, text = self.parts[number], self.said[number]
        delta = {"type": "transcript.text.delta", "delta": text if number else text.lstrip(), "segment_id": part["id"]}
        return sse.event(delta) + sse.event(part)


class VerboseDiarized(Verbose):
    """``verbose_json`` whose segments name their speaker."""

    def __init__(self, speakers: Speakers, granularities: tuple[str, ...], *, translated: bool = False) -> None:
        super().__init__(granularities, translated=translated)
        self._speakers = speakers

    def value(self) -> Any:
        value = super().value()
        for one, written in zip(self.segments, value.get("segments", ()), strict=False):
            written["speaker"] = self._speakers.at(one.start, one.end)
        return value


def _segment(number: int, speaker: str, part: SegmentEvent) -> dict[str, Any]:
    times = {"start": round(part.start, 3), "end": round(part.end, 3)}
    return {"type": SEGMENT, "id": f"seg_{number}", **times, "speaker": speaker, "text": part.text.strip()}
