"""Output files, which appear complete or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path

from edgeserve.errors import InvalidRequest


def check_output(output: str) -> None:
    """Raises InvalidRequest before the work when no file of this name can be written. "-" is stdout."""
    if output == "-":
        return
    path = Path(output)
    folder = path.absolute().parent
    if path.is_dir():
        raise InvalidRequest(f"-o {output}: is a directory; name a file in it")
    if not folder.is_dir():
        raise InvalidRequest(f"-o {output}: there is no such directory")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InvalidRequest(f"-o {output}: {'the file' if path.exists() else folder} cannot be written")


def write_output(output: str, data: bytes) -> None:
    """Write a file, or stdout for "-". Raises OSError with the name; an existing file then stays."""
    try:
        if output == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        elif _is_special(Path(output)):
            Path(output).write_bytes(data)
        else:
            _replace(Path(output), data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "stdout" if output == "-" else output) from error


def _is_special(path: Path) -> bool:
    """Whether the path is a device, a pipe or a link: it takes bytes but must not be replaced."""
    return path.is_symlink() or (path.exists() and not stat.S_ISREG(path.stat().st_mode))


def _replace(path: Path, data: bytes) -> None:
    if path.exists() and not os.access(path.absolute().parent, os.W_OK):
        path.write_bytes(data)  # the folder takes no new file
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        if path.exists():
            partial.chmod(stat.S_IMODE(path.stat().st_mode))
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
