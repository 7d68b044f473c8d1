"""What every conversion of a Whisper checkpoint begins and ends with: its files checked, the result in one step."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edgeserve.errors import DiskFull, StoreError
from edgeserve.models.convert.ctranslate2 import Checkpoint

Progress = Callable[[str, float], None]
"""Told each stage and the share done."""

AUDIO_STATES = 1500
"""States of one 30 s window: 3,000 mel frames, halved by the second convolution."""
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"


def read(folder: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """A Whisper checkpoint and its settings. Raises StoreError naming what is missing or cannot be read."""
    for name in ("model.bin", CONFIG, TOKENIZER):
        if not (folder / name).is_file():
            raise StoreError(f"{folder}: has no {name}; a CTranslate2 Whisper checkpoint is expected")
    source = Checkpoint(folder / "model.bin")
    if source.spec != "WhisperSpec":
        raise StoreError(f"{folder}: holds a {source.spec}; only Whisper checkpoints can be converted")
    return source, _settings(folder / CONFIG)


def layers(source: Checkpoint, part: str) -> int:
    """How many the "encoder" or the "decoder" has."""
    count = 0
    while f"{part}/layer_{count}/ffn/linear_0/weight" in source:
        count += 1
    return count


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Where to write; it becomes ``out`` in one step when all is done, and goes when something failed.

    Raises DiskFull when it does not fit, StoreError when it cannot be written.
    """
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a conversion that was killed
    try:
        partial.mkdir(parents=True)
        yield partial
        partial.rename(out)
    except OSError as error:
        raise _translated(error, out) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreError(f"{path}: not valid JSON ({error}); pull it again") from error
    if not isinstance(settings, dict):
        raise StoreError(f"{path}: holds no JSON object; pull it again")
    return settings


def _translated(error: OSError, out: Path) -> StoreError:
    if error.errno == errno.ENOSPC:
        return DiskFull(f"{out}: the disk is full; a converted model takes twice the size of a float16 checkpoint")
    return StoreError(f"{out}: cannot be written: {error.strerror}")
