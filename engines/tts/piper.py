"""Piper: one VITS network for each voice, with one speaker or many, and a JSON file with its settings.

The phonemes come from espeak-ng, which is GPL software. Its package is an extra, and only voices of this family import
the package (docs/models.md). The network draws its own noise, so the same request never gives exactly the same audio.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engine import ModelSpec
from edgeserve.engines.onnx import session
from edgeserve.engines.onnx.prepare import prepared
from edgeserve.engines.tts import phonemes as tts_phonemes
from edgeserve.engines.tts.text import cut, normal
from edgeserve.errors import EngineFailure, InvalidRequest

START, END, PAD = "^", "$", "_"
_DOTTED = re.compile(r"\b((?:[^\W\d_]{1,2}\.){2,})(?=(\s*$)?)")
"""U.S., Ph.D., A.M.: espeak-ng would end a sentence at their full stops."""
_FEW_DOTS = re.compile(r"(?:[^.․‥…。．｡]*+[.․‥…。．｡]){1,24}+|[^.․‥…。．｡]++")
"""A text of at most 24 dots. espeak-ng joins single letters with dots (a.b.c) in a buffer of 160 bytes.

It writes on beyond the end of the buffer: 32 letters of four bytes ended the process.
"""
_espeak = threading.Lock()
"""A lock, since espeak-ng has one voice for the whole process."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings from a voice's JSON. ``speakers``: names and numbers; the only speaker of a network has number 0."""

    language: str
    sample_rate: int
    ids: dict[str, list[int]]
    speakers: dict[str, int]
    many: bool
    noise: float
    length: float
    noise_of_length: float

    @staticmethod
    def read(path: Path) -> Settings:
        """Raises EngineFailure naming the file."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            kind = stored.get("phoneme_type", "espeak")
            if kind != "espeak":
                raise EngineFailure(f"{path}: a voice of phoneme type {kind!r}; edgeserve reads those of espeak only")
            inference, many = stored.get("inference", {}), int(stored.get("num_speakers", 1)) > 1
            return Settings(
                language=str(stored["espeak"]["voice"]),
                sample_rate=int(stored["audio"]["sample_rate"]),
                ids={str(one): [int(id) for id in ids] for one, ids in stored["phoneme_id_map"].items()},
                speakers=_speakers(stored, many),
                many=many,
                noise=float(inference.get("noise_scale", 0.667)),
                length=float(inference.get("length_scale", 1.0)),
                noise_of_length=float(inference.get("noise_w", 0.8)),
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise EngineFailure(f"{path}: no settings of a Piper voice ({error!r}); pull the model again") from error


def _speakers(stored: dict[str, Any], many: bool) -> dict[str, int]:
    named = {str(name): int(number) for name, number in (stored.get("speaker_id_map") or {}).items()}
    if many:
        return named or {f"speaker{number}": number for number in range(int(stored["num_speakers"]))}
    return {str(stored.get("dataset") or "speaker"): 0}


class Piper:
    """Files: ``model`` and ``config``, the JSON that comes with it. Raises EngineFailure."""

    max_phonemes = 150
    rows = False
    kept = 0
    session_bytes = 12 << 20
    per_request = 132 << 20
    """Measured: 131 MB for 148 phonemes, 7 s of audio."""
    phonemizer_bytes = 2 << 20

    @staticmethod
    def load(spec: ModelSpec) -> None:
        import onnxruntime  # noqa: F401 - opens the graph

        _phonemizer()
        if _english(Settings.read(_config(spec)).language):
            tts_phonemes.load()  # its normaliser

    @staticmethod
    def accents(spec: ModelSpec) -> set[bool]:
        return set()

    @staticmethod
    def voices(spec: ModelSpec) -> list[str]:
        config = spec.files.get("config")
        return list(Settings.read(config).speakers) if config is not None and config.is_file() else []

    @staticmethod
    def parts(voice: str) -> list[str]:
        return [voice]

    @staticmethod
    def graphs(spec: ModelSpec) -> list[Path]:
        return [spec.files["model"]] if "model" in spec.files else []

    def __init__(self, spec: ModelSpec, folder: Path) -> None:
        if "model" not in spec.files:
            raise EngineFailure(f"{spec.name} needs a model; pull it again")
        self._settings = Settings.read(_config(spec))
        self.sample_rate = self._settings.sample_rate
        self._phonemizer = _phonemizer()
        graph = prepared(spec.files["model"], device=spec.device)
        self._session = graph.session(threads=spec.threads, device=spec.device)
        self.mapped = list(graph.data)
        self._phonemes("")  # raises now for a language that espeak-ng lacks

    def pieces(self, text: str, voice: str, limit: int) -> Iterator[str]:
        english = _english(self._settings.language)
        for part in cut.parts(text, _words if english else normal.unmarked):
            yield from cut.sounding(self._phonemes(part) if part else "", limit)

    def say(self, piece: str, voice: str, speed: float, beside: bool = False) -> Iterator[Any]:
        import numpy

        settings = self._settings
        ids = self._ids(piece)
        inputs = {
            "input": numpy.asarray([ids], numpy.int64),
            "input_lengths": numpy.asarray([len(ids)], numpy.int64),
            "scales": numpy.asarray([settings.noise, settings.length / speed, settings.noise_of_length], numpy.float32),
        }
        if settings.many:
            inputs["sid"] = numpy.asarray([settings.speakers[voice]], numpy.int64)
        yield session.run(self._session, None, inputs)[0].ravel()

    def _ids(self, phonemes: str) -> list[int]:
        """Ids of the phonemes, each with a pad after it, between start and end marks. Unknown phonemes are left out."""
        ids = self._settings.ids
        pad = ids[PAD]
        spaced = [id for char in phonemes if char in ids for id in (*ids[char], *pad)]
        return [*ids[START], *pad, *spaced, *ids[END]]

    def _phonemes(self, text: str) -> str:
        """Raises EngineFailure for a language that espeak-ng lacks, InvalidRequest for a text that it cannot read."""
        language = self._settings.language
        try:
            with _espeak:
                cut_up = _FEW_DOTS.findall(text) or [text]
                sentences = [one for some in cut_up for one in self._phonemizer.phonemize(language, some)]
        except RuntimeError as error:
            raise EngineFailure(f"espeak-ng has no voice {language!r} ({error})") from error
        except ValueError as error:  # a NUL
            raise InvalidRequest(f"the phonemizer cannot read {text[:60]!r}: {error}", param="text") from error
        return " ".join("".join(one) for one in sentences)


def _words(text: str) -> str:
    """English text in words; abbreviations with full stops as single letters."""
    said = normal.spoken(normal.unmarked(text))
    return _DOTTED.sub(lambda match: _letters(match[1]) + "." * (match[2] is not None), said)


def _letters(dotted: str) -> str:
    """Letters with hyphens between them, so that espeak-ng does not read a lone A as the article."""
    return "-".join(dotted.replace(".", "").upper())


def _english(language: str) -> bool:
    return language.split("-")[0] == "en"


def _config(spec: ModelSpec) -> Path:
    if "config" not in spec.files:
        raise EngineFailure(f'{spec.name} needs the JSON that comes with a Piper voice, as "config"; pull it again')
    return spec.files["config"]


def _phonemizer() -> Any:
    """espeak-ng's phonemizer. Raises EngineFailure where the package is missing."""
    try:
        from piper.phonemize_espeak import EspeakPhonemizer

        with _espeak:
            return EspeakPhonemizer()
    except ImportError as error:
        raise EngineFailure(
            f"Piper voices need espeak-ng's phonemes ({error}): pip install 'edgeserve[piper]', which is GPL software"
        ) from error
