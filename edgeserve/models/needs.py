"""Packages that a model needs beyond the server's own: to be converted when it is pulled, or to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType

Installed = Callable[[str], bool]
"""Told the name of a top-level module."""


@dataclass(frozen=True, slots=True)
class Need:
    """A package by its module, and the extra of edgeserve that brings it."""

    module: str
    package: str
    extra: str


_HIBARI = Need("hibari", "hibari-tts", "starter")
CONVERSIONS: Mapping[str, tuple[Need, ...]] = MappingProxyType({"whisper": (Need("onnx", "onnx", "starter"),)})
"""What writes the graphs, by conversion; one that is not listed needs nothing."""
VOICES: Mapping[str, tuple[Need, ...]] = MappingProxyType(
    {
        "hibari": (_HIBARI,),
        "kokoro": (_HIBARI,),
        "piper": (Need("hibari", "hibari-tts", "piper"), Need("piper", "piper-tts", "piper")),
    }
)
"""What reads English, by the family of a voice (option ``family``)."""


def installed(module: str) -> bool:
    """Whether it can be imported; nothing is."""
    return find_spec(module) is not None


def to_convert(conversion: str, there: Installed = installed) -> tuple[Need, ...]:
    """Packages that are missing for a conversion."""
    return tuple(need for need in CONVERSIONS.get(conversion, ()) if not there(need.module))


def to_run(options: Mapping[str, object], there: Installed = installed) -> tuple[Need, ...]:
    """Packages that are missing for a model with these options to run."""
    return tuple(need for need in VOICES.get(str(options.get("family")), ()) if not there(need.module))


def packages(needs: Iterable[Need]) -> str:
    return ", ".join(dict.fromkeys(need.package for need in needs))


def command(needs: Iterable[Need]) -> str:
    """What installs them."""
    return f"pip install 'edgeserve[{','.join(sorted({need.extra for need in needs}))}]'"
