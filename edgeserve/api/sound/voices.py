"""The voice of a request: a name of the model's own, or one of OpenAI's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import models
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.question import Question
from edgeserve.api.schema import VISIBLE, Field
from edgeserve.api.values import Number
from edgeserve.errors import InvalidRequest
from edgeserve.messages import SpeakRequest
from edgeserve.residency.pool import Pool

OPENAI: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "alloy": ("af_alloy", "f"),
        "ash": ("am_michael", "m"),
        "ballad": ("bm_george", "m"),
        "cedar": ("am_adam", "m"),
        "coral": ("af_bella", "f"),
        "echo": ("am_echo", "m"),
        "fable": ("bm_fable", "bm_george", "m"),
        "marin": ("af_heart", "f"),
        "nova": ("af_nova", "f"),
        "onyx": ("am_onyx", "m"),
        "sage": ("af_sarah", "f"),
        "shimmer": ("bf_emma", "f"),
        "verse": ("am_adam", "m"),
    }
)
"""For each of OpenAI's names, Kokoro's voices that come near it, then whether a woman (f) or a man (m) speaks."""
BLENDS = "+,"
"""Marks between the voices of a blend. Only the engine can read a blend."""


class VoiceName(Field[str]):
    """``voice``: a name, or OpenAI's object with an id."""

    def __init__(self, words: str) -> None:
        super().__init__(words, "")

    def read(self, fields: Fields, limits: Limits) -> str:
        given = fields.raw(self.name)
        if isinstance(given, dict):
            return fields.inner(given, f"{fields.full(self.name)}.").required_text("id", limit=NAME_CHARS)
        return fields.text(self.name, limit=NAME_CHARS)

    def schema(self, limits: Limits) -> dict[str, Any]:
        text = {"type": "string", "maxLength": NAME_CHARS}
        name = text | {"minLength": 1, "pattern": VISIBLE}
        return {"oneOf": [text, {"type": "object", "properties": {"id": name}, "required": ["id"]}]}


class SpeechOptions(Question):
    """The fields about how a text is said."""

    voice = VoiceName("one of /v1/tts/voices, one of OpenAI's names, or a blend; left out: the default")
    speed = Number("pace; 1 is the voice's own", 0.25, 4, default=1.0)

    def say(self, known: Sequence[str], text: str) -> SpeakRequest:
        """The text in this voice. ``known``: the model's voices. Raises InvalidRequest for an unknown voice."""
        return SpeakRequest(text, choose(known, self.voice), self.speed)


def openai_names(known: Sequence[str]) -> dict[str, str]:
    """The model's voice for each of OpenAI's names. ``known`` begins with the default.

    Where the model has a voice of that name, the name means that voice.
    """
    return {name: name if name in known else _near(wanted, known) for name, wanted in OPENAI.items()}


def _near(wanted: Sequence[str], known: Sequence[str]) -> str:
    *names, sex = wanted
    alike = [voice for voice in known if voice[1:3] == f"{sex}_"]
    return next((name for name in names if name in known), alike[0] if alike else known[0])


def choose(known: Sequence[str], name: str) -> str | None:
    """The model's name of the voice; None means its default. Raises InvalidRequest with all names."""
    if not name or name in known or any(mark in name for mark in BLENDS):
        return name or None
    if known and name in OPENAI:
        return openai_names(known)[name]
    listed = f"voices: {', '.join(known)}; OpenAI's names stand for them: {', '.join(OPENAI)}"
    raise InvalidRequest(f"unknown voice {name!r}; {listed}", param="voice")


def _known(request: Request) -> tuple[str, ...]:
    """Voices of the model that the query names."""
    pool: Pool = request.app.state.pool
    return pool.voices(models.choose(pool, request.query_params.get("model", ""), ("tts",)))


async def list_voices(request: Request) -> Response:
    """As Open WebUI and Kokoro-FastAPI list them."""
    return JSONResponse({"voices": [{"id": one, "name": one} for one in _known(request)]})


async def list_models(request: Request) -> Response:
    """The models that speak, the default first, as Open WebUI and Speaches list them."""
    pool: Pool = request.app.state.pool
    names = dict.fromkeys(spec.name for spec in pool.directory.of(["tts"]))
    return JSONResponse({"object": "list", "models": [{"id": one, "name": one} for one in names]})


async def voices(request: Request) -> Response:
    known = _known(request)
    return JSONResponse({"voices": list(known), "openai": openai_names(known) if known else {}})
