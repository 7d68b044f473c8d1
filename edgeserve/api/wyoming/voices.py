"""Voices of all models that speak, with their languages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from edgeserve.api import models
from edgeserve.api.sound import voices
from edgeserve.api.wyoming.fields import Voice
from edgeserve.dataclass import dataclass
from edgeserve.errors import InvalidRequest
from edgeserve.residency.pool import Pool

KOKORO = re.compile(r"([abefhijpz])[fm]_")
ACCENTS: Mapping[str, str] = MappingProxyType(
    {
        "a": "en-US",
        "b": "en-GB",
        "e": "es-ES",
        "f": "fr-FR",
        "h": "hi-IN",
        "i": "it-IT",
        "j": "ja-JP",
        "p": "pt-BR",
        "z": "zh-CN",
    }
)
"""Languages by the first letter of Kokoro's voices, which hibari's voices share (VOICES.md of Kokoro-82M)."""
PIPER = re.compile(r"(?:^|[-_])([a-z]{2})[-_]([A-Za-z]{2})(?=[-_])")
"""Language and region in the name of a Piper voice, as in piper-en-us-joe-medium."""
PLAIN = "en-US"
"""Language of any other voice."""


@dataclass(frozen=True, slots=True)
class KnownVoice:
    """A voice of the model with the id ``model``."""

    model: str
    name: str
    language: str


def language_of(voice: str, model: str) -> str:
    """The language of a voice as BCP 47 tag, by its name and that of its model."""
    if found := KOKORO.match(voice):
        return ACCENTS[found[1]]
    if found := PIPER.search(model):
        return f"{found[1]}-{found[2].upper()}"
    return PLAIN


def listed(pool: Pool) -> list[KnownVoice]:
    """All voices, those of the default model first. The first voice of a name hides others."""
    found: dict[str, KnownVoice] = {}
    for spec in pool.directory.of(("tts",)):
        for name in pool.voices(spec.id):
            found.setdefault(name, KnownVoice(spec.id, name, language_of(name, spec.name)))
    return list(found.values())


def choose(pool: Pool, model: str, wanted: Voice | None) -> tuple[str, str | None]:
    """Id of the model and name of its voice; None: the model's default.

    1. No voice: the default of ``model``, a name, which may be empty.
    2. The name of a voice of any model.
    3. Without a name: the first voice of the language, of ``model`` where one is named.
    4. A name that the model understands otherwise, such as one of OpenAI's.

    Raises ModelNotFound, and InvalidRequest for an unknown voice or language.
    """
    chosen = models.choose(pool, model, ("tts",))
    # 1.
    if wanted is None or not (wanted.name or wanted.language):
        return chosen, None
    known = [one for one in listed(pool) if not model or one.model == chosen]
    # 2.
    for one in known:
        if one.name in filter(None, (wanted.speaker, wanted.name)):
            return one.model, one.name
    # 3.
    if not wanted.name:
        return _speaking(known, wanted.language)
    # 4.
    return chosen, voices.choose(pool.voices(chosen), wanted.name)


def _speaking(known: list[KnownVoice], language: str) -> tuple[str, str]:
    tag = language.replace("_", "-").lower()
    for exact in (True, False):
        for one in known:
            if tag == one.language.lower() or (not exact and tag.partition("-")[0] == one.language.partition("-")[0]):
                return one.model, one.name
    spoken = ", ".join(dict.fromkeys(one.language for one in known)) or "none"
    raise InvalidRequest(f"no voice speaks {language!r}; languages: {spoken}", param="voice.language")
