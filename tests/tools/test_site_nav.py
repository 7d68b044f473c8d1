"""The menu of the site: every page of docs/ once, first steps first."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def flat(menu: list[Any]) -> list[str]:
    return [page for one in menu for page in ([one] if isinstance(one, str) else next(iter(one.values())))]


def test_every_page_is_in_the_menu_once(site_nav: ModuleType) -> None:
    config = site_nav.on_config(SimpleNamespace(docs_dir=str(DOCS)))
    pages = flat(config.nav)
    assert sorted(pages) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    assert pages[:2] == ["index.md", "quickstart.md"]


def test_sections_begin_with_their_overview(site_nav: ModuleType) -> None:
    pages = ["api/admin.md", "api/README.md", "memory.md", "apple.md", "models.md", "devices/a.md", "new_folder/b.md"]
    assert site_nav.menu(pages) == [
        {"Devices": ["devices/a.md"]},
        {"Guides": ["models.md", "memory.md", "apple.md"]},
        {"API": ["api/README.md", "api/admin.md"]},
        {"New_folder": ["new_folder/b.md"]},
    ]
