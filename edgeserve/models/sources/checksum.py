"""Checksums of files: computed, and compared with the promised one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

from edgeserve.dataclass import dataclass
from edgeserve.errors import ChecksumMismatch
from edgeserve.models.sources.source import Report


@dataclass(slots=True)
class _Reported:
    """A file that reports each read as bytes done and bytes in all."""

    file: BinaryIO
    total: int
    report: Report
    done: int = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray, /) -> int:
        count: int = self.file.readinto(buffer)  # type: ignore[attr-defined]  # files opened for bytes have it
        self.done += count
        self.report(self.done, self.total)
        return count


def sha256_of(path: Path, report: Report = lambda done, total: None) -> str:
    """The checksum in hexadecimal digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(_Reported(file, path.stat().st_size, report), "sha256").hexdigest()


def check(path: Path, expected: str, report: Report = lambda done, total: None) -> None:
    """Remove the file and raise ChecksumMismatch unless it has the expected checksum."""
    got = sha256_of(path, report)
    if got != expected:
        path.unlink()
        raise ChecksumMismatch(
            f"{path.name} has the checksum sha256 {got[:16]}…, but {expected[:16]}… was promised; the file was "
            "removed: pull again, and if it happens again, do not trust the source"
        )
