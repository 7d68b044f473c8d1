"""The contract of a family of voices: its names, its phonemes and its network."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

from edgeserve.engine import ModelSpec


class Family(Protocol):
    """A family of voices. An instance is an open model.

    - sample_rate: Hz of the samples.
    - max_phonemes: longest piece; ``per_request`` bytes are enough for this length.
    - rows: the graphs are prepared to give rows (engines/onnx/rows.py).
    - session_bytes: private memory of one open graph.
    - phonemizer_bytes: private memory of the phonemizer.
    - kept: private memory that may stay for the next piece while the engine is hot; ``per_request`` comes on top.
    - mapped: files whose pages can be dropped.
    """

    sample_rate: int
    max_phonemes: int
    rows: bool
    session_bytes: int
    kept: int
    per_request: int
    phonemizer_bytes: int
    mapped: list[Path]

    def __init__(self, spec: ModelSpec, folder: Path) -> None:
        """Open the model. ``folder`` keeps prepared files. Raises EngineFailure."""
        ...

    @staticmethod
    def voices(spec: ModelSpec) -> list[str]:
        """Names of the model's voices, the default first. Raises EngineFailure for a damaged file."""
        ...

    @staticmethod
    def parts(voice: str) -> Collection[str]:
        """The voices that a blend consists of; for other voices, the voice itself. Raises InvalidRequest."""
        ...

    @staticmethod
    def load(spec: ModelSpec) -> None:
        """Import the packages of phonemizer and network. Raises EngineFailure for a missing package."""
        ...

    @classmethod
    def accents(cls, spec: ModelSpec) -> set[bool]:
        """Accents of hibari's phonemizer (True: British) whose tables are prepared; empty for another phonemizer."""
        ...

    @staticmethod
    def graphs(spec: ModelSpec) -> list[Path]:
        """The model's files that are networks."""
        ...

    def pieces(self, text: str, voice: str, limit: int) -> Iterator[str]:
        """Strings of at most ``limit`` phonemes, each of one sentence, in order.

        An empty string stands for a part of the text, of bounded length, that has no phonemes. The caller checks for a
        cancel after each string.
        """
        ...

    def say(self, piece: str, voice: str, speed: float, beside: bool = False) -> Iterator[Any]:
        """float32 samples in [-1, 1], shape (n,), as they are computed. An array is valid until the next is asked for.

        The caller may call this on another thread while it iterates over the samples of the piece before: ``beside``.
        """
        ...
