"""Which voice a request means: the model's own name for it, or one of OpenAI's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.errors import InvalidRequest
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
"""OpenAI's names, and for each Kokoro's voices that come near it, then whether a woman (f) or a man (m) speaks."""
BLENDS = "+,"
"""What stands between the voices of a blend; only the engine can read one."""


def openai_names(known: Sequence[str]) -> dict[str, str]:
    """OpenAI's names → voices of a model, whose default comes first. A name that the model has itself means that."""
    return {name: name if name in known else _near(wanted, known) for name, wanted in OPENAI.items()}


def _near(wanted: Sequence[str], known: Sequence[str]) -> str:
    *names, sex = wanted
    alike = [voice for voice in known if voice[1:3] == f"{sex}_"]
    return next((name for name in names if name in known), alike[0] if alike else known[0])


def choose(known: Sequence[str], name: str | None) -> str | None:
    """The model's name of the voice; None: its default. Raises InvalidRequest with all names."""
    if not name or name in known or any(mark in name for mark in BLENDS):
        return name or None
    if known and name in OPENAI:
        return openai_names(known)[name]
    listed = f"voices: {', '.join(known)}; OpenAI's names stand for them: {', '.join(OPENAI)}"
    raise InvalidRequest(f"unknown voice {name!r}; {listed}", param="voice")


async def voices(request: Request) -> Response:
    pool: Pool = request.app.state.pool
    known = pool.voices()
    return JSONResponse({"voices": list(known), "openai": openai_names(known) if known else {}})
