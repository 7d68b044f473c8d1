"""The runs of CI: .ci/run and tools/site.sh, with stubs in place of make, Python and the site's generator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.sources import ROOT

CLOSING = "=== 3 passed, 1 skipped in 1.50s (0:00:01) ==="


def stub(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def run(script: str, place: Path) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": f"{place / 'bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": str(place)}
    return subprocess.run([script], cwd=place, env=environ, capture_output=True, text=True, timeout=60, check=False)


def ci(place: Path, make: str, site: int = 0) -> subprocess.CompletedProcess[str]:
    """A run of CI on a machine whose make does this, and whose site ends with this code."""
    for name in ("chromium", "prometheus"):
        stub(place / "bin" / name, "")
    stub(place / "bin" / "make", make)
    stub(place / "tools" / "site.sh", f"exit {site}")
    (place / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", place / ".ci")
    return run(".ci/run", place)


@pytest.mark.parametrize(
    ("test", "cluster", "site", "code"),
    [(0, 0, 0, 0), (2, 0, 0, 2), (0, 2, 0, 2), (2, 3, 1, 2), (0, 0, 1, 1), (0, 0, 69, 0), (2, 0, 69, 2)],
)
def test_it_ends_with_the_first_failure_and_pytests_line(
    tmp_path: Path, test: int, cluster: int, site: int, code: int
) -> None:
    ended = ci(tmp_path, f'case $1 in test) echo "{CLOSING}"; exit {test};; test-cluster) exit {cluster};; esac', site)
    assert (ended.returncode, ended.stdout.splitlines()[-1], ended.stderr) == (code, CLOSING, "")
    assert ("were not built as a site" in ended.stdout) == (site == 69)


@pytest.mark.parametrize(("failed", "again", "code"), [(1, 0, 0), (3, 0, 0), (1, 2, 2), (4, 0, 2)])
def test_a_few_failures_are_tried_once_more_alone(tmp_path: Path, failed: int, again: int, code: int) -> None:
    lines = "; ".join(f"echo 'FAILED tests/test_a.py::test_{number} - assert'" for number in range(failed))
    once = f'{lines}; echo "{CLOSING}"; exit 2'
    ended = ci(tmp_path, f'case "$*" in *--last-failed*) exit {again};; "test "*) {once};; esac')
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (code, CLOSING)
    assert ("tried once more, alone:" in ended.stdout) == (failed <= 3)


@pytest.mark.parametrize(("pip", "mkdocs", "code"), [(0, 0, 0), (0, 1, 1), (1, 0, 69)])
def test_a_site_that_cannot_be_built_is_told_from_one_with_mistakes(
    tmp_path: Path, pip: int, mkdocs: int, code: int
) -> None:
    made = tmp_path / ".venv-docs" / "bin" / "python"
    stub(tmp_path / "new", f'case "$*" in *" pip "*) exit {pip};; *mkdocs*) exit {mkdocs};; esac')
    stub(tmp_path / ".venv" / "bin" / "python", f"mkdir -p {made.parent} && cp new {made}")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "site.sh", tmp_path / "tools")
    stub(tmp_path / "docs.sh", "exec sh tools/site.sh")
    ended = run("./docs.sh", tmp_path)
    assert ended.returncode == code, ended.stderr
    assert ("cannot be installed here" in ended.stderr) == (code == 69)
    assert (tmp_path / ".venv-docs" / "installed").exists() == (pip == 0)


@pytest.mark.slow
def test_all_tests_in_a_browser_are_skipped_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "browser", "tests/edgeserve/web"]
    shown = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    told = [line for line in shown.stdout.splitlines() if "the page is not tried in a browser" in line]
    assert shown.returncode == 0, shown.stdout
    assert len(told) == 1, told
