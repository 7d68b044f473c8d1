"""hibari's dictionaries as word tables in a folder of prepared files, made on first use.

Making a table takes 120 MB, so a child process makes it: here the heap would stay fragmented afterwards.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from edgeserve.engines.tts.word_table import Dictionaries, WordTable, encode

log = logging.getLogger("edgeserve.tts")


def file_of(folder: Path, name: str) -> Path:
    """Path of a table, made or not."""
    return folder / f"{name}.words"


def table(assets: Path, name: str, folder: Path) -> WordTable:
    """The table ``name`` ("tagger", "lexicon_us", "lexicon_gb"), mapped from the folder.

    A missing or damaged table is made first, by one process while others wait. A table that cannot be made is held in
    memory. Raises OSError, EOFError, KeyError or ValueError when the assets are damaged.
    """
    path = file_of(folder, name)
    try:
        return WordTable.map(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        log.warning("%s: %s; it is made anew", path, error)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _made(assets, name, path)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
        log.warning("%s cannot be made, its dictionaries are held in memory: %s", path, "".join(last))
        return WordTable(encode(dictionaries(assets, name)))


def _made(assets: Path, name: str, path: Path) -> WordTable:
    """Make the table, unless another process has made it; the caller holds the lock."""
    try:
        return WordTable.map(path)
    except (OSError, ValueError):
        command = [sys.executable, "-m", __name__, str(assets), name, str(path)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        subprocess.run(command, env=environ, check=True, capture_output=True, text=True)  # noqa: S603 - ourselves
        return WordTable.map(path)


def write(assets: Path, name: str, path: Path) -> None:
    """Make the table. A reader sees the whole file or none."""
    partial = path.with_suffix(".partial")
    try:
        partial.write_bytes(encode(dictionaries(assets, name)))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def dictionaries(assets: Path, name: str) -> Dictionaries:
    """hibari's dictionaries, each under the letter that ``phonemes`` looks it up by."""
    if name != "tagger":
        return {letter: _read(assets / f"{name}_{kind}.json.gz") for letter, kind in (("g", "gold"), ("s", "silver"))}
    stored = _read(assets / "tagger.json.gz")
    frequent = dict.fromkeys(stored["vocab"], 1)
    return {"t": stored["tagdict"], "w": stored["weights"], "f": frequent, "a": {"": stored["tags"]}}


def _read(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
