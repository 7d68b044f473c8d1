"""Checksums: as hashlib computes them, reported as they go, and a wrong file removed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from edgeserve.errors import ChecksumMismatch
from edgeserve.models.sources.checksum import check, sha256_of


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_a_checksum_is_reported_up_to_the_size_of_the_file(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    reports: list[tuple[int, int]] = []
    assert sha256_of(tmp_path / "file", lambda *at: reports.append(at)) == hashlib.sha256(data).hexdigest()
    assert reports[-1] == (size, size)
    assert reports == sorted(reports)


def test_a_file_with_another_checksum_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"right")
    check(path, hashlib.sha256(b"right").hexdigest())
    with pytest.raises(ChecksumMismatch, match="was promised"):
        check(path, hashlib.sha256(b"wrong").hexdigest())
    assert not path.exists()
