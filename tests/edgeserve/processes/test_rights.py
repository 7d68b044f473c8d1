"""Rights that every child has, and those of a decoder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from edgeserve.processes.rights import decoder_confinement

ROOT = Path(__file__).parents[3]


def test_a_search_path_opens_no_home_no_checkout_and_no_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models.toml, which may hold keys, lies in such folders."""
    home, here = tmp_path / "homes" / "me", tmp_path / "here"
    packages = home / ".local" / "lib" / "site-packages"
    for folder in (packages, here):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    added = ["", "/", str(tmp_path / "homes"), str(home), str(here), str(ROOT), str(packages), str(tmp_path / "extra")]
    monkeypatch.setattr(sys, "path", added)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{home}{os.pathsep}{tmp_path / 'cuda'}")
    read = {path for path in decoder_confinement(None, None).read if path.is_relative_to(tmp_path) or path == ROOT}
    assert read == {packages, tmp_path / "extra", tmp_path / "cuda"}
    assert Path("/") not in decoder_confinement(None, None).read


def test_our_own_packages_can_be_read() -> None:
    assert {ROOT / "edgeserve", ROOT / "edgeserve/engines"} <= set(decoder_confinement(None, None).read)


def test_a_decoder_has_limits_and_nothing_to_write() -> None:
    wanted = decoder_confinement(1 << 30, 20)
    assert (wanted.write, wanted.address_bytes, wanted.cpu_seconds) == ((), 1 << 30, 20)
