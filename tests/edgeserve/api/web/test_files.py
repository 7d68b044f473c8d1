"""The files of the page: their version, and their size together."""

from __future__ import annotations

from pathlib import Path

from edgeserve.api.web import files

LIMIT = 80_000
"""Compressed bytes of the whole page."""


def folder(tmp_path: Path, script: str) -> Path:
    for name, text in {
        "index.html": "<title>{{base}}</title>{{preloads}}",
        "js/app.js": script,
        "css/b.css": "b {}\n",
        "css/a.css": "a {}\n",
        "vendor/whole.js": "// kept\n",
        "licence.txt": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_version_changes_with_the_files(tmp_path: Path) -> None:
    first = files.Files(folder(tmp_path, "1;")).version
    assert files.Files(folder(tmp_path, "1;")).version == first
    assert files.Files(folder(tmp_path, "2;")).version != first


def test_styles_are_one_file_and_others_are_not_served(tmp_path: Path) -> None:
    sizes = files.Files(folder(tmp_path, "1;")).sizes
    assert set(sizes) == {"index.html", "js/app.js", "page.css", "vendor/whole.js"}


def test_the_whole_page_is_small() -> None:
    sizes = files.read().sizes
    largest = sorted(sizes.items(), key=lambda one: -one[1])[:12]
    assert sum(sizes.values()) <= LIMIT, f"{sum(sizes.values()):,} bytes; the largest: {largest}"


def test_they_are_read_once() -> None:
    assert files.read() is files.read()
