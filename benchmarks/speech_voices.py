"""Recordings of a human voice, with their words: chapter 1 of Sense and Sensibility, read for LibriVox.

The source distribution of pocketsphinx carries five passages, 25 s in all, in the public domain. Longer recordings
repeat the passages in other orders, so that no window is like another.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import subprocess
import sys
import tarfile
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE, SHA256 = "pocketsphinx==5.1.1", "675778b309a22dfc9b7d37f7621976bba491d2a5f8c59696bd77fd6d07271355"
MEMBER = "pocketsphinx-5.1.1/test/data/librivox/sense_and_sensibility_01_austen_64kb-{}.wav"
WORDS = {
    "0870": "And Mr. John Dashwood had then leisure to consider how much there might be prudently in his power to do "
    "for them.",
    "0880": "He was not an ill disposed young man,",
    "0890": "unless to be rather cold hearted and rather selfish is to be ill disposed.",
    "0920": "Had he married a more amiable woman, he might have been made still more respectable than he was.",
    "0930": "He might even have been made amiable himself.",
}
"""The passages by their numbers."""
RATE, PAUSE = 16_000, 0.4
"""Samples a second; seconds between two passages."""
REPEATED = {"reading": 1, "minute": 2, "ten-minutes": 23}
"""The recordings: how often each holds all passages."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A WAV of 16 kHz, its length in seconds, and the words that are read in it."""

    path: Path
    seconds: float
    words: str


def recordings(folder: Path, cache: Path) -> Mapping[str, Recording]:
    """All recordings, written to ``folder``; the package stays in ``cache``. Raises RuntimeError without it."""
    passages = _passages(_package(cache))
    return {name: _joined(folder / f"{name}.wav", passages, times) for name, times in REPEATED.items()}


def _package(cache: Path) -> Path:
    """The source distribution, fetched by pip once."""
    name, version = PACKAGE.split("==")
    path = cache / f"{name}-{version}.tar.gz"
    if not path.exists():
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", name, PACKAGE]
        found = subprocess.run([*command, "--dest", str(cache)], capture_output=True, text=True)
        if found.returncode:
            raise RuntimeError(f"{PACKAGE}, whose recordings are wanted, was not fetched: {found.stderr[-500:]}")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise RuntimeError(f"{path} is not the file that this benchmark knows: remove it and try again")
    return path


def _passages(package: Path) -> dict[str, bytes]:
    """Samples of the passages, int16, by their numbers."""
    found = {}
    with tarfile.open(package) as archive:
        for number in WORDS:
            member = archive.extractfile(MEMBER.format(number))
            assert member is not None  # the checksum says so
            with wave.open(io.BytesIO(member.read()), "rb") as file:
                found[number] = file.readframes(file.getnframes())
    return found


def _joined(path: Path, passages: Mapping[str, bytes], times: int) -> Recording:
    order = [number for one in itertools.islice(itertools.permutations(WORDS), times) for number in one]
    samples = bytes(round(PAUSE * RATE) * 2).join(passages[number] for number in order)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(samples)
    return Recording(path, len(samples) / 2 / RATE, " ".join(WORDS[number] for number in order))
