"""The check of the docs: blocks that fail are named with their place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest


@pytest.mark.skipif(not shutil.which("bash"), reason="blocks of commands need bash")
def test_only_what_fails_is_a_fault(docs_check: ModuleType, docs_pages: ModuleType, page: Path, tmp_path: Path) -> None:
    session = docs_check.Session(tmp_path)
    faults = [fault for block in docs_pages.blocks(page) for fault in session.run(block)]
    assert [fault.split("\n")[0] for fault in faults] == ["page.md:7: echo one \\: ended with 3"]


def test_a_block_of_an_unknown_kind_is_a_fault(
    docs_check: ModuleType, docs_pages: ModuleType, page: Path, tmp_path: Path
) -> None:
    page.write_text("```cobol\nSTOP RUN.\n```\n")
    (fault,) = docs_check.Session(tmp_path).run(next(docs_pages.blocks(page)))
    assert "unknown kind" in fault


def test_json_is_read(docs_check: ModuleType, docs_pages: ModuleType, page: Path, tmp_path: Path) -> None:
    page.write_text('```json\n{"a": [1]}\n```\n```json\n{"a": [1}\n```\n')
    good, bad = docs_pages.blocks(page)
    assert list(docs_check.Session(tmp_path).run(good)) == []
    (fault,) = docs_check.Session(tmp_path).run(bad)
    assert "no JSON" in fault


def test_a_block_alone_has_a_home_and_a_network_of_its_own(
    docs_check: ModuleType, docs_pages: ModuleType, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    good, bad = docs_pages.blocks(page)
    session = docs_check.Session(tmp_path)
    assert list(session.run(good)) == []
    assert [path.name for path in (tmp_path / "of the tests").iterdir()] == ["models"], "no key of the block's"
    (fault,) = session.run(bad)
    assert "ended with 3" in fault


@pytest.mark.slow
def test_a_server_of_a_block_alone_ends_with_it(
    docs_check: ModuleType, docs_pages: ModuleType, page: Path, tmp_path: Path
) -> None:
    if not docs_check.own_network():
        pytest.skip("this system lets users make no network of their own")
    body = "echo it serves on x; echo $$ >pid; exec sleep 100"
    page.write_text("<!-- alone -->\n```sh\nedgeserve serve\nkill -0 $(cat pid)\nmv pid ../pid\n```\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "edgeserve").write_text(f"#!/bin/sh\n{body}\n")
    (tmp_path / "bin" / "edgeserve").chmod(0o755)
    session = docs_check.Session(tmp_path)
    session._environ["PATH"] = f"{tmp_path / 'bin'}:{session._environ['PATH']}"
    assert [fault for block in docs_pages.blocks(page) for fault in session.run(block)] == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_settings_are_read_by_the_reader(
    docs_check: ModuleType, docs_pages: ModuleType, page: Path, tmp_path: Path
) -> None:
    page.write_text("```toml\n[server]\nport = 9000\n```\n```toml\n[server]\nprot = 9000\n```\n")
    good, bad = docs_pages.blocks(page)
    assert list(docs_check.Session(tmp_path).run(good)) == []
    (fault,) = docs_check.Session(tmp_path).run(bad)
    assert "did you mean" in fault or "port" in fault
