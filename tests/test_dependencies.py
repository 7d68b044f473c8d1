"""Every package that the product imports is declared, not merely brought by one that is."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib

from support.sources import ROOT, modules

# Extras apple, cluster, mlx, otel, pdf, zeroconf and microphone: not installed everywhere, so there is no
# distribution to ask.
ELSEWHERE = {
    "mlx",
    "mlx_whisper",
    "opentelemetry",
    "pypdf",
    "sounddevice",
    "zeroconf",
    "ray",
}


EXPLAINED = ("piper", "apple", "mlx", "otel", "pdf", "zeroconf", "microphone", "caddy", "cluster")
"""Extras of which decision 1 explains each package."""


def imported() -> set[str]:
    """Top-level names of other people's modules, wherever they are imported."""
    names = {name.split(".")[0] for module in modules() for name in module.imports}
    return names - set(sys.stdlib_module_names) - {"edgeserve"} - ELSEWHERE


def brought(distribution: str) -> set[str]:
    """Top-level names of the modules that an installed distribution holds."""
    record = importlib.metadata.distribution(distribution).read_text("RECORD") or ""
    return {re.split(r"[/,.]", line, maxsplit=1)[0] for line in record.splitlines()}


def plain(name: str) -> str:
    """A distribution's name in its normal form (PEP 503), without version and extras."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!;\[ ]", name)[0]).lower()


def test_every_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {plain(one) for one in [*project["dependencies"], *extras["piper"]]}
    missing = imported() - {name for one in declared for name in brought(one)}
    assert not missing, f"imported, but not in pyproject.toml: {sorted(missing)}"


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text(encoding="utf-8")
    extras = project["optional-dependencies"]
    named = [plain(one) for one in [*project["dependencies"], *(one for extra in EXPLAINED for one in extras[extra])]]
    assert [name for name in named if name not in text] == []


def test_software_under_the_gpl_is_asked_for_by_name() -> None:
    """By the extra of Piper voices, and for the tests of them; and imported where one is opened, nowhere else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    packages = [one for name, extra in extras.items() if name != "piper" for one in extra] + project["dependencies"]
    assert "piper-tts" not in map(plain, packages)
    assert [name for name, extra in extras.items() if any("[piper" in one for one in extra)] == ["dev"]
    modules = [*ROOT.glob("edgeserve/**/*.py"), *ROOT.glob("engines/**/*.py")]
    importers = [
        path.name for path in modules if re.search(r"^\s*(import|from) piper\b", path.read_text("utf-8"), re.M)
    ]
    assert importers == ["piper.py"]
