"""The check of the docs: dead links and headings are found, and blocks that fail are named with their place."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from edgeserve.cli import make_parser

PAGE = """# Title: `code` & more

See [there](other.md), [the part](other.md#a-part), [here](#title-code--more), [out](https://example.org/x).
`[not a link](nowhere.md)`

```sh
echo one \\
  two    # a comment
exit 3
```

<!-- not run: it takes too long -->
```sh
exit 4
```

```python
assert 1 + 1 == 2
```
"""


@pytest.fixture
def page(docs_check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(docs_check, "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# A part\n")
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_links_that_lead_somewhere_are_no_faults(docs_check: ModuleType, page: Path) -> None:
    assert list(docs_check.dead_links(page)) == []


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("nowhere.md", "leads to no file"),
        ("other.md#nothing", "leads to no heading"),
        ("#nothing", "leads to no heading"),
        ("docs/other.md", "leads to no file"),
    ],
)
def test_dead_links_are_named_with_their_line(docs_check: ModuleType, page: Path, target: str, fault: str) -> None:
    page.write_text(f"# Title\n\n[x]({target})\n")
    assert list(docs_check.dead_links(page)) == [f"page.md:3: {target} {fault}"]


def test_blocks_know_their_kind_place_and_excuse(docs_check: ModuleType, page: Path) -> None:
    found = list(docs_check.blocks(page))
    assert [(block.kind, block.place, block.excuse) for block in found] == [
        ("sh", "page.md:7", ""),
        ("sh", "page.md:14", "it takes too long"),
        ("python", "page.md:18", ""),
    ]


@pytest.mark.skipif(not shutil.which("bash"), reason="blocks of commands need bash")
def test_only_what_fails_is_a_fault(docs_check: ModuleType, page: Path, tmp_path: Path) -> None:
    session = docs_check.Session(tmp_path)
    faults = [fault for block in docs_check.blocks(page) for fault in session.run(block)]
    assert [fault.split("\n")[0] for fault in faults] == ["page.md:7: echo one \\: ended with 3"]


def test_lines_between_commands_that_serve_share_a_shell(docs_check: ModuleType) -> None:
    code = "NAME=a\necho $NAME \\\n  b\nmake serve    # up\n\ncurl x -d '{\n}'"
    assert list(docs_check.scripts(code)) == ["NAME=a\necho $NAME \\\n  b", "make serve", "curl x -d '{\n}'"]


def test_a_block_of_an_unknown_kind_is_a_fault(docs_check: ModuleType, page: Path, tmp_path: Path) -> None:
    page.write_text("```cobol\nSTOP RUN.\n```\n")
    (fault,) = docs_check.Session(tmp_path).run(next(docs_check.blocks(page)))
    assert "unknown kind" in fault


def test_json_is_read(docs_check: ModuleType, page: Path, tmp_path: Path) -> None:
    page.write_text('```json\n{"a": [1]}\n```\n```json\n{"a": [1}\n```\n')
    good, bad = docs_check.blocks(page)
    assert list(docs_check.Session(tmp_path).run(good)) == []
    (fault,) = docs_check.Session(tmp_path).run(bad)
    assert "no JSON" in fault


def test_a_block_alone_has_a_home_and_a_network_of_its_own(
    docs_check: ModuleType, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not docs_check.own_network():
        pytest.skip("this system lets users make no network of their own")
    monkeypatch.setenv("EDGESERVE_MODELS_DIR", str(tmp_path / "of the tests" / "models"))
    code = """[ "$HOME" = "$PWD" ]
[ "$(ip -o link | wc -l)" = 1 ]
touch "$(dirname "$EDGESERVE_MODELS_DIR")/keys.json"
"""
    page.write_text(f"<!-- alone -->\n```sh\n{code}```\n<!-- alone -->\n```sh\nexit 3\n```\n")
    (tmp_path / "of the tests" / "models").mkdir(parents=True)
    good, bad = docs_check.blocks(page)
    session = docs_check.Session(tmp_path)
    assert list(session.run(good)) == []
    assert [path.name for path in (tmp_path / "of the tests").iterdir()] == ["models"], "no key of the block's"
    (fault,) = session.run(bad)
    assert "ended with 3" in fault


@pytest.mark.slow
def test_a_server_of_a_block_alone_ends_with_it(docs_check: ModuleType, page: Path, tmp_path: Path) -> None:
    if not docs_check.own_network():
        pytest.skip("this system lets users make no network of their own")
    body = "echo it serves on x; echo $$ >pid; exec sleep 100"
    page.write_text("<!-- alone -->\n```sh\nedgeserve serve\nkill -0 $(cat pid)\nmv pid ../pid\n```\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "edgeserve").write_text(f"#!/bin/sh\n{body}\n")
    (tmp_path / "bin" / "edgeserve").chmod(0o755)
    session = docs_check.Session(tmp_path)
    session._environ["PATH"] = f"{tmp_path / 'bin'}:{session._environ['PATH']}"
    assert [fault for block in docs_check.blocks(page) for fault in session.run(block)] == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_summary_counts_the_reasons(docs_check: ModuleType, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_check, "pages", lambda: [page, page])
    assert list(docs_check.summary()) == ["4 blocks run, 2 do not:", "  2 it takes too long"]


def words_of(code: str) -> Iterator[list[str]]:
    """The words of each `edgeserve` command of a script."""
    lines = code.replace("\\\n", " ")
    for words in re.findall(r"^(?:sudo )?(?:\w+=\S+ )*edgeserve (.+)$", lines, re.MULTILINE):
        yield shlex.split(words, comments=True)


def test_the_command_knows_all_that_the_pages_ask_of_it_where_it_does_not_run(docs_check: ModuleType) -> None:
    excused = [
        words
        for page in docs_check.pages()
        for block in docs_check.blocks(page)
        if block.kind == "sh" and block.excuse
        for words in words_of(block.code)
    ]
    assert len(excused) > 20
    for words in excused:
        make_parser().parse_args(words)
    with pytest.raises(SystemExit):
        make_parser().parse_args(["service", "instal"])


def test_settings_are_read_by_the_reader(docs_check: ModuleType, page: Path, tmp_path: Path) -> None:
    page.write_text("```toml\n[server]\nport = 9000\n```\n```toml\n[server]\nprot = 9000\n```\n")
    good, bad = docs_check.blocks(page)
    assert list(docs_check.Session(tmp_path).run(good)) == []
    (fault,) = docs_check.Session(tmp_path).run(bad)
    assert "did you mean" in fault or "port" in fault


def test_the_blocks_of_all_pages_run_after_those_that_start_a_server(docs_check: ModuleType) -> None:
    order = docs_check.in_order()
    assert order[:2] == [docs_check.ROOT / "README.md", docs_check.ROOT / "docs/quickstart.md"]
    assert sorted(order) == sorted(docs_check.pages())


def test_every_link_of_the_docs_leads_somewhere(docs_check: ModuleType) -> None:
    assert [fault for page in docs_check.pages() for fault in docs_check.dead_links(page)] == []
