"""Languages of a Whisper, known from the size of its vocabulary before the model is opened."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from edgeserve.errors import InvalidRequest

CODES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi ml",
    "cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am",
    "yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue",
)
"""ISO codes in the order of their tokens (openai/whisper tokenizer.py). Later models know more languages."""
MULTILINGUAL, FEWEST = 51_865, 99
"""Tokens of the smallest multilingual vocabulary (openai/whisper model.py), and its number of languages."""
ENGLISH_ONLY = "this model knows English only and cannot translate; serve a multilingual Whisper"


def codes(vocabulary: int) -> tuple[str, ...]:
    """Languages of a model with so many tokens."""
    if vocabulary < MULTILINGUAL:
        return ("en",)
    return tuple(" ".join(CODES).split()[: FEWEST + vocabulary - MULTILINGUAL])


def checked(wanted: str | None, known: Collection[str]) -> str | None:
    """The language to transcribe; None where the model shall detect the language.

    ``known``: codes of a multilingual model, empty for an English-only model. Raises InvalidRequest for others.
    """
    if not known:
        if wanted not in (None, "en"):
            raise InvalidRequest(f"this model knows English only, not {wanted!r}", param="language")
        return "en"
    if wanted is not None and wanted not in known:
        raise InvalidRequest(f"unknown language {wanted!r}; known: {', '.join(sorted(known))}", param="language")
    return wanted


class Language:
    """The language of a request. ``detect`` finds it in a window's audio, once, where ``code`` is None."""

    def __init__(self, code: str | None, detect: Callable[[Any], str]) -> None:
        self.code, self._detect = code, detect

    def __call__(self, audio: Any) -> str:
        self.code = self.code or self._detect(audio)
        return self.code
