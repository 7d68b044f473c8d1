"""The pages of the docs: dead links and headings are found, and blocks know their kind and place."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from edgeserve.cli import make_parser


def test_links_that_lead_somewhere_are_no_faults(docs_pages: ModuleType, page: Path) -> None:
    assert list(docs_pages.dead_links(page)) == []


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("nowhere.md", "leads to no file"),
        ("other.md#nothing", "leads to no heading"),
        ("#nothing", "leads to no heading"),
        ("docs/other.md", "leads to no file"),
    ],
)
def test_dead_links_are_named_with_their_line(docs_pages: ModuleType, page: Path, target: str, fault: str) -> None:
    page.write_text(f"# Title\n\n[x]({target})\n")
    assert list(docs_pages.dead_links(page)) == [f"page.md:3: {target} {fault}"]


def test_blocks_know_their_kind_place_and_excuse(docs_pages: ModuleType, page: Path) -> None:
    found = list(docs_pages.blocks(page))
    assert [(block.kind, block.place, block.excuse) for block in found] == [
        ("sh", "page.md:7", ""),
        ("sh", "page.md:14", "it takes too long"),
        ("python", "page.md:18", ""),
    ]


def test_lines_between_commands_that_serve_share_a_shell(docs_pages: ModuleType) -> None:
    code = "NAME=a\necho $NAME \\\n  b\nmake serve    # up\n\ncurl x -d '{\n}'"
    assert list(docs_pages.scripts(code)) == ["NAME=a\necho $NAME \\\n  b", "make serve", "curl x -d '{\n}'"]


def test_the_summary_counts_the_reasons(docs_pages: ModuleType, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_pages, "pages", lambda: [page, page])
    assert list(docs_pages.summary()) == ["4 blocks run, 2 do not:", "  2 it takes too long"]


def words_of(code: str) -> Iterator[list[str]]:
    """The words of each `edgeserve` command of a script."""
    lines = code.replace("\\\n", " ")
    for words in re.findall(r"^(?:sudo )?(?:\w+=\S+ )*edgeserve (.+)$", lines, re.MULTILINE):
        yield shlex.split(words, comments=True)


def test_the_command_knows_all_that_the_pages_ask_of_it_where_it_does_not_run(docs_pages: ModuleType) -> None:
    excused = [
        words
        for page in docs_pages.pages()
        for block in docs_pages.blocks(page)
        if block.kind == "sh" and block.excuse
        for words in words_of(block.code)
    ]
    assert len(excused) > 20
    for words in excused:
        make_parser().parse_args(words)
    with pytest.raises(SystemExit):
        make_parser().parse_args(["service", "instal"])


def test_the_blocks_of_all_pages_run_after_those_that_start_a_server(docs_pages: ModuleType) -> None:
    order = docs_pages.in_order()
    assert order[:2] == [docs_pages.ROOT / "README.md", docs_pages.ROOT / "docs/quickstart.md"]
    assert sorted(order) == sorted(docs_pages.pages())


def test_every_link_of_the_docs_leads_somewhere(docs_pages: ModuleType) -> None:
    assert [fault for page in docs_pages.pages() for fault in docs_pages.dead_links(page)] == []
