"""The begin and the end of every Whisper conversion: the checkpoint is checked, the result appears in one step."""

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
"""Receives each stage and the share done."""

AUDIO_STATES = 1500
"""States of one 30 s window: 3,000 mel frames, halved by the second convolution."""
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"


def read(folder: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """A Whisper checkpoint and its settings. Raises StoreError with the missing or unreadable part."""
    for name in ("model.bin", CONFIG, TOKENIZER):
        if not (folder / name).is_file():
            raise StoreError(f"{folder}: has no {name}; a CTranslate2 Whisper checkpoint is expected")
    source = Checkpoint(folder / "model.bin")
    if source.spec != "WhisperSpec":
        raise StoreError(f"{folder}: holds a {source.spec}; only Whisper checkpoints can be converted")
    return source, _settings(folder / CONFIG)


def layers(source: Checkpoint, part: str) -> int:
    """Number of layers of the "encoder" or the "decoder"."""
    count = 0
    while f"{part}/layer_{count}/ffn/linear_0/weight" in source:
        count += 1
    return count


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A new folder to write into. It becomes ``out`` at the end, and is deleted after a failure.

    Raises DiskFull and StoreError.
    """
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # an earlier conversion was killed
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
