"""Every package that the product imports is declared, not merely brought by one that is."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Extras apple and mlx: not installed everywhere, so their distributions cannot be asked for.
APPLE = {"mlx", "mlx_whisper"}


def imported() -> set[str]:
    """Top-level names of other people's modules, wherever they are imported."""
    names = set()
    for path in [*ROOT.glob("edgeserve/**/*.py"), *ROOT.glob("engines/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"edgeserve", "engines"} - APPLE


def plain(name: str) -> str:
    """A distribution's name in its normal form (PEP 503), without version and extras."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!;\[ ]", name)[0]).lower()


def test_every_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {plain(one) for one in [*project["dependencies"], *extras["starter"], *extras["piper"]]}
    owners = importlib.metadata.packages_distributions()
    missing = {name for name in imported() if not declared & {plain(owner) for owner in owners.get(name, [name])}}
    assert not missing, f"imported, but not in pyproject.toml: {sorted(missing)}"


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text(encoding="utf-8")
    extras = project["optional-dependencies"]
    named = [
        plain(one)
        for one in [*project["dependencies"], *extras["starter"], *extras["piper"], *extras["apple"], *extras["mlx"]]
    ]
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
