"""Renderers of speech: a whole file, a file as it is made, and events."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

from edgeserve.api import failures, sse
from edgeserve.audio.encode import Encoder
from edgeserve.audio.wav import wav_header
from edgeserve.errors import EdgeserveError
from edgeserve.messages import AudioEvent, Event

WHOLE_ADVICE = " for speech that is answered as a whole: ask /v1/audio/speech for a format that streams, or send less"
"""Follows the limit in the error about a text that is too long."""


class WavBody:
    """All pieces of speech as one WAV file."""

    stream = False
    media_type = "audio/wav"

    def __init__(self) -> None:
        self._pieces: list[AudioEvent] = []

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, AudioEvent):
            self._pieces.append(event)
        return b""

    def end(self) -> Iterator[bytes]:
        """The header, then each piece: to join 50 MB would hold the event loop, and take as much again."""
        yield wav_header(self._pieces[0].sample_rate, sum(len(piece.pcm) for piece in self._pieces))
        yield from (piece.pcm for piece in self._pieces)

    def fail(self, error: EdgeserveError) -> bytes:
        return b""


class SpeechStream:
    """A file as it is made: each piece of speech leaves while the engine synthesises the next."""

    stream = True

    def __init__(self, media_type: str, make_encoder: Callable[[int], Encoder]) -> None:
        """``make_encoder`` makes the encoder for a rate in Hz."""
        self.media_type = media_type
        self._make = make_encoder
        self._encoder: Encoder | None = None
        self._closed = False

    def feed(self, index: int, event: Event) -> bytes:
        if not isinstance(event, AudioEvent):
            return b""
        if self._encoder is None:
            self._encoder = self._make(event.sample_rate)
            if self._closed:  # while the encoder began
                self._encoder.close()
        return self._encoder.add(event.pcm)

    def end(self) -> bytes:
        return self._encoder.end() if self._encoder else b""

    def fail(self, error: EdgeserveError) -> bytes | None:
        return None  # sound has no place for words

    def close(self) -> None:
        """End the encoder, wherever it is. Any thread."""
        self._closed = True
        if self._encoder:
            self._encoder.close()


class SpeechEvents(SpeechStream):
    """A file in ``speech.audio.delta`` events, base64, then ``speech.audio.done``.

    These voices have no tokens, so the usage has ``input_characters`` and ``output_seconds``.
    """

    def __init__(self, make_encoder: Callable[[int], Encoder], characters: int) -> None:
        super().__init__(sse.MEDIA_TYPE, make_encoder)
        self._characters, self._seconds = characters, 0.0

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, AudioEvent):
            self._seconds += len(event.pcm) / 2 / event.sample_rate
        return _delta(super().feed(index, event))

    def end(self) -> bytes:
        tokens = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        usage = {**tokens, "input_characters": self._characters, "output_seconds": round(self._seconds, 3)}
        return _delta(super().end()) + sse.event({"type": "speech.audio.done", "usage": usage})

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.event({"type": "error", **failures.body(error)})


def _delta(sound: bytes) -> bytes:
    """No event for a piece that fills no frame yet."""
    return sse.event({"type": "speech.audio.delta", "audio": base64.b64encode(sound).decode()}) if sound else b""
