"""The check of the docs: dead links and headings are found, and blocks that fail are named with their place."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

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
