"""The menu of the site, made of the files of docs/: no page is left out. A hook of MkDocs, which mkdocs.yml names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

FIRST = ("index.md", "quickstart.md")
GUIDES = ("models.md", "configuration.md", "commands.md", "clients.md", "memory.md")
"""The first pages of "Guides"; other pages of the top folder come after them."""
FOLDERS = {"devices": "Devices", "api": "API", "benchmarks": "Benchmarks", "decisions": "Decisions"}

Nav = list[str | dict[str, list[str]]]


def menu(pages: Iterable[str]) -> Nav:
    """The menu of pages, given by their paths below docs/: first steps, devices, guides, API, and the rest."""
    left = sorted(pages)
    top = [page for page in left if "/" not in page]
    guides = [page for page in (*GUIDES, *top) if page in top and page not in FIRST]
    found: Nav = [page for page in FIRST if page in top]
    sections = {"Guides": list(dict.fromkeys(guides))}
    for page in left:
        folder = page.partition("/")[0]
        if folder != page:
            sections.setdefault(FOLDERS.get(folder, folder.capitalize()), []).append(page)
    order = ["Devices", "Guides", "API", *sections]
    found += [{name: _index_first(sections[name])} for name in dict.fromkeys(order) if sections.get(name)]
    return found


def _index_first(pages: list[str]) -> list[str]:
    return sorted(pages, key=lambda page: not page.endswith("/README.md"))


def on_config(config: Any) -> Any:
    """MkDocs calls this with the settings of the site."""
    folder = Path(config.docs_dir)
    config.nav = menu(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))
    return config
