"""Text to speech on ONNX Runtime: one engine, a family of voices each with its own network."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import AudioEvent, SpeakRequest
from engines import ort, pages, tts_hibari, tts_kokoro, tts_phonemes

SPEEDS = (0.25, 4.0)
PACES = (0.5, 2.0)
"""Speeds that the networks were trained for; beyond them the nearest is used."""
PREPARED = "prepared"
"""Folder beside the model: what is made once from other files, and mapped from then on."""
GRAPH_SHARE, GRAPH_BYTES, PHONEMIZER_BYTES = 1.16, 4 << 20, 4 << 20
"""Measured, private: a session for each byte of its file and for its nodes; the phonemizer with its net."""


class Family(Protocol):
    """What a family of voices knows: its names, how text is cut, and how one piece is said.

    ``mapped``: files whose pages can be dropped. ``max_phonemes``: of a piece, and so what ``per_request`` bytes are
    enough for.
    """

    sample_rate: int
    max_phonemes: int
    per_request: int
    mapped: list[Path]

    def pieces(self, text: str, voice: str, limit: int) -> Iterator[str]:
        """Strings of at most ``limit`` phonemes, each of one sentence, in order; unspeakable text yields none."""
        ...

    def say(self, piece: str, voice: str, speed: float) -> Any:
        """float32 samples in [-1, 1], shape (n,)."""
        ...


FAMILIES: dict[str, type[tts_hibari.Hibari] | type[tts_kokoro.Kokoro]] = {
    "hibari": tts_hibari.Hibari,
    "kokoro": tts_kokoro.Kokoro,
}


class OnnxTextToSpeech:
    """Options: ``family`` ("hibari", "kokoro"), ``voice`` (the default). Files: ``model``, and voices by their names.

    Warm, the sessions are open and no page of the mapped dictionaries is resident; what runs left on the heap is
    returned. What the import of the runtime takes is never returned, serves other engines too, and is not counted.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._voice: Family | None = None
        self._hot = False
        self._private = 0
        self._family = str(spec.options.get("family", "hibari"))

    @property
    def rung(self) -> Rung:
        if self._voice is None:
            return Rung.COLD
        return Rung.HOT if self._hot else Rung.WARM

    def estimate(self) -> Footprint:
        """Dictionaries as they are mapped; weights as the runtime holds them; one piece of speech."""
        family = self._known()
        graphs = sum(path.suffix == ".onnx" for path in self.spec.files.values())
        return Footprint(
            mapped=tts_phonemes.mapped_bytes({family.british(voice) for voice in family.voices(self.spec)}),
            private=int(GRAPH_SHARE * self.spec.size_bytes) + graphs * GRAPH_BYTES + PHONEMIZER_BYTES,
            per_request=family.per_request,
        )

    def footprint(self) -> Footprint:
        if self._voice is None:
            return Footprint()
        return Footprint(mapped=sum(map(pages.resident_mapped, self._voice.mapped)), private=self._private)

    def _known(self) -> type[tts_hibari.Hibari] | type[tts_kokoro.Kokoro]:
        if self._family not in FAMILIES:
            raise EngineFailure(f"unknown voice family {self._family!r}; known: {', '.join(FAMILIES)}")
        return FAMILIES[self._family]

    def _check(self, voices: Collection[str]) -> None:
        if not self.spec.files:
            raise EngineFailure(f"{self.spec.name} has no files; pull it again")
        for path in self.spec.files.values():
            if not path.is_file():
                raise EngineFailure(f"{path}: no such file; pull the model again with `edgeserve pull`")
        default = self.spec.options.get("voice")
        if default is not None and default not in voices:
            raise EngineFailure(f"{self.spec.name} has no voice {default!r}; voices: {', '.join(voices)}")

    def open(self) -> None:
        if self._voice is not None:
            return
        family = self._known()
        self._check(family.voices(self.spec))
        tts_phonemes.load()
        _release()
        before = pages.private_bytes()
        voice = family(self.spec, next(iter(self.spec.files.values())).parent / PREPARED)
        _cool(voice)
        self._private = max(0, pages.private_bytes() - before)
        self._voice = voice

    def heat(self) -> None:
        self.open()
        if self._voice is not None and not self._hot:
            for path in self._voice.mapped:
                pages.populate_mapped(path)
            self._hot = True

    def park(self) -> None:
        if self._voice is not None and self._hot:
            self._hot = False
            _cool(self._voice)

    def close(self) -> None:
        self._hot = False
        if self._voice is not None:
            self._voice = None
            _release()

    def voices(self) -> tuple[str, ...]:
        names = FAMILIES[self._family].voices(self.spec) if self._family in FAMILIES else []
        if not names:
            return ()
        default = str(self.spec.options.get("voice", names[0]))
        return (default, *(name for name in names if name != default))

    def speak(self, request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent]:
        """Slow speech is cut into shorter pieces, so that each takes no longer and no more memory than at speed 1."""
        voice, family = self._checked(request)
        pace = min(max(request.speed, PACES[0]), PACES[1])
        spoken = False
        for piece in family.pieces(request.text, voice, int(family.max_phonemes * min(pace, 1.0))):
            if cancel.is_set():
                return
            samples = family.say(piece, voice, pace)
            if len(samples):
                spoken = True
                yield AudioEvent(_pcm16(samples), family.sample_rate)
        if not spoken and not cancel.is_set():
            raise InvalidRequest("the text holds nothing that can be spoken", param="text")

    def _checked(self, request: SpeakRequest) -> tuple[str, Family]:
        if self._voice is None or not self._hot:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        voice = request.voice or self.voices()[0]
        if voice not in self.voices():
            raise InvalidRequest(f"unknown voice {voice!r}; voices: {', '.join(self.voices())}", param="voice")
        if not SPEEDS[0] <= request.speed <= SPEEDS[1]:
            low, high = SPEEDS
            raise InvalidRequest(f"speed must lie between {low} and {high}, not {request.speed}", param="speed")
        return voice, self._voice


def _cool(voice: Family) -> None:
    for path in voice.mapped:
        pages.drop_mapped(path)
    _release()


def _release() -> None:
    """Give back what is no longer used.

    Python's cache of attribute look-ups keeps the names that C code asked for, up to 4,096 strings, and each keeps a
    page of the heap: measured, 2.5 MB more after 20 cycles, without them 0.7.
    """
    for name in ("_clear_internal_caches", "_clear_type_cache"):  # the former since Python 3.13, of CPython both
        if hasattr(sys, name):
            getattr(sys, name)()
            break
    ort.release()


def _pcm16(samples: Any) -> bytes:
    import numpy

    return bytes((numpy.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2").tobytes())
