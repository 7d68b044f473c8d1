"""Certificates of tests, made by openssl as the server makes its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgeserve.tls.self_signed import SelfSigned

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the program openssl makes certificates")
NAMES = ("localhost", "127.0.0.1")


def made(folder: Path, *names: str) -> Path:
    """A certificate with its key in a file."""
    return SelfSigned(folder, names or NAMES).ensure()
