"""The standard streams of a command, when they are closed, full, without a reader, or hold bytes that are no text."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from edgeserve.errors import InvalidRequest

NUMBERS = (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w"))


def open_closed() -> None:
    """Open the null device for each standard stream that is closed (``<&-``, ``>&-``, ``2>&-``).

    Otherwise the next file or socket gets the stream's number, and a C library's output goes into that file.
    """
    for name, number, mode in NUMBERS:
        if not _is_open(number):
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - to the end


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def read_text(what: str) -> str:
    """All of stdin. Raises InvalidRequest when it is not UTF-8; ``what`` names the text in the message."""
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = data[error.start]
        raise InvalidRequest(
            f"{what} on stdin is not UTF-8 text: byte {error.start + 1} of {len(data)} is 0x{wrong:02x}; "
            "convert it first, for example with iconv -t utf-8",
            param=what,
        ) from None


def check_text(text: str, what: str) -> str:
    """The text of an argument, unchanged. Raises InvalidRequest when its bytes are not UTF-8."""
    # Python keeps such bytes as lone surrogates, which no later step could encode.
    if any("\ud800" <= one <= "\udfff" for one in text):
        raise InvalidRequest(f"{what} is not UTF-8 text; expected an argument in the encoding of this terminal, UTF-8")
    return text


def finish() -> OSError | None:
    """Flush stdout and stderr before the process ends; returns the error of stdout, or None.

    A stream that fails is turned to the null device. Otherwise the interpreter's own flush at the end would print a
    traceback and change the exit code.
    """
    failed = [_flush(stream) for stream in (sys.stderr, sys.stdout)]
    return failed[-1]


def _flush(stream: TextIO) -> OSError | None:
    try:
        stream.flush()
    except OSError as error:
        _silence(stream)
        return type(error)(error.errno, error.strerror, "stdout")
    return None


def _silence(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):  # A stream that is no file has no number.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        stream.flush()
