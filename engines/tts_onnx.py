"""Text to speech on ONNX Runtime: one engine, a family of voices each with its own phonemizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import AudioEvent, SpeakRequest
from engines import ort, pages, tts_hibari, tts_kokoro

SPEEDS = (0.25, 4.0)


class Family(Protocol):
    """What a family of voices knows: its names, how text is cut, and how one piece is said."""

    sample_rate: int

    def pieces(self, text: str) -> Iterator[str]:
        """Phoneme strings, one for each sentence or clause, in order; unspeakable text yields none."""
        ...

    def say(self, piece: str, voice: str, speed: float) -> Any:
        """float32 samples in [-1, 1], shape (n,)."""
        ...


FAMILIES: dict[str, type[tts_hibari.Hibari] | type[tts_kokoro.Kokoro]] = {
    "hibari": tts_hibari.Hibari,
    "kokoro": tts_kokoro.Kokoro,
}
PHONEMIZER_BYTES = 75 << 20
"""Measured: lexicon, tagger and tokenizer rules of the phonemizer as Python objects."""


class OnnxTextToSpeech:
    """Options: ``family`` ("hibari", "kokoro"), ``voice`` (the default). Files: ``model``, and voices by their names.

    The model is opened on the first request and has no warm rung of its own: parking closes it.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._voice: Family | None = None
        self._private = 0
        self._family = str(spec.options.get("family", "hibari"))

    @property
    def rung(self) -> Rung:
        return Rung.HOT if self._voice is not None else Rung.COLD

    def estimate(self) -> Footprint:
        """Measured: the graph is held once as read and once prepacked; the phonemizer's dictionaries weigh the most."""
        return Footprint(private=int(2.2 * self.spec.size_bytes) + PHONEMIZER_BYTES, per_request=24 << 20)

    def footprint(self) -> Footprint:
        return Footprint(private=self._private if self._voice is not None else 0)

    def open(self) -> None:
        if self._voice is not None:
            return
        if self._family not in FAMILIES:
            raise EngineFailure(f"unknown voice family {self._family!r}; known: {', '.join(FAMILIES)}")
        before = pages.private_bytes()
        self._voice = FAMILIES[self._family](self.spec)
        self._private = max(0, pages.private_bytes() - before)

    def heat(self) -> None:
        self.open()

    def park(self) -> None:
        self.close()

    def close(self) -> None:
        if self._voice is not None:
            self._voice = None
            ort.release()

    def voices(self) -> tuple[str, ...]:
        names = FAMILIES[self._family].voices(self.spec) if self._family in FAMILIES else []
        if not names:
            return ()
        default = str(self.spec.options.get("voice", names[0]))
        return (default, *(name for name in names if name != default))

    def speak(self, request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent]:
        voice, family = self._checked(request)
        spoken = False
        for piece in family.pieces(request.text):
            if cancel.is_set():
                return
            samples = family.say(piece, voice, request.speed)
            if len(samples):
                spoken = True
                yield AudioEvent(_pcm16(samples), family.sample_rate)
        if not spoken and not cancel.is_set():
            raise InvalidRequest("the text holds nothing that can be spoken", param="text")

    def _checked(self, request: SpeakRequest) -> tuple[str, Family]:
        if self._voice is None:
            raise EngineFailure(f"{self.spec.name} is not open")
        voice = request.voice or self.voices()[0]
        if voice not in self.voices():
            raise InvalidRequest(f"unknown voice {voice!r}; voices: {', '.join(self.voices())}", param="voice")
        if not SPEEDS[0] <= request.speed <= SPEEDS[1]:
            low, high = SPEEDS
            raise InvalidRequest(f"speed must lie between {low} and {high}, not {request.speed}", param="speed")
        return voice, self._voice


def _pcm16(samples: Any) -> bytes:
    import numpy

    return bytes((numpy.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2").tobytes())
