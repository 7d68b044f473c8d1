"""Packages that a model needs beside the server's own, to be converted or to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from types import MappingProxyType

from edgeserve.dataclass import dataclass

Installed = Callable[[str], bool]
"""Whether a top-level module is installed, by its name."""


@dataclass(frozen=True, slots=True)
class Need:
    """A package, its module, and the extra of edgeserve that brings it; empty where edgeserve itself does."""

    module: str
    package: str
    extra: str = ""


_HIBARI = Need("hibari", "hibari-tts")
CONVERSIONS: Mapping[str, tuple[Need, ...]] = MappingProxyType(
    dict.fromkeys(("whisper", "ge2e"), (Need("onnx", "onnx"),))
)
"""Packages that write the graphs, by conversion. A conversion that is not listed needs none."""
VOICES: Mapping[str, tuple[Need, ...]] = MappingProxyType(
    {
        "hibari": (_HIBARI,),
        "kokoro": (_HIBARI,),
        "piper": (_HIBARI, Need("piper", "piper-tts", "piper")),
    }
)
"""Packages that read English, by the family of a voice (option ``family``)."""


def installed(module: str) -> bool:
    """Whether the module can be imported. It is not imported."""
    return find_spec(module) is not None


def to_convert(conversion: str, there: Installed = installed) -> tuple[Need, ...]:
    """Missing packages of a conversion."""
    return tuple(need for need in CONVERSIONS.get(conversion, ()) if not there(need.module))


def to_run(options: Mapping[str, object], there: Installed = installed) -> tuple[Need, ...]:
    """Missing packages that a model with these options needs to run."""
    return tuple(need for need in VOICES.get(str(options.get("family")), ()) if not there(need.module))


def packages(needs: Iterable[Need]) -> str:
    return ", ".join(dict.fromkeys(need.package for need in needs))


def command(needs: Iterable[Need]) -> str:
    """The command that installs the packages."""
    needs = tuple(needs)
    plain = dict.fromkeys(need.package for need in needs if not need.extra)
    extras = sorted({need.extra for need in needs if need.extra})
    return " ".join(["pip install", *plain, *([f"'edgeserve[{','.join(extras)}]'"] if extras else [])])
