"""The command ``edgeserve``, also as ``python -m edgeserve``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType

ALLOCATOR = "PYTHONMALLOC"
Handler = Callable[[int, FrameType | None], object]
INTERRUPTED = 128 + signal.SIGINT


def run() -> int:
    """Run the command; returns its exit code. Ctrl-C ends it with 130 and no traceback, also while it begins and ends.

    While modules are imported Ctrl-C kills the process: Python swallows a KeyboardInterrupt here and there during an
    import. A process that was started with Ctrl-C ignored (nohup, a script's background) goes on ignoring it.
    """
    _heed(signal.default_int_handler, _end_at_once)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # held back while this process was started again
    from edgeserve.system import streams

    streams.open_closed()
    if sys.argv[1:2] == ["serve"]:
        use_system_allocator(os.environ)
    try:
        code = main()
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        _heed(signal.default_int_handler, _end_at_once)
        streams.finish()
    return code


def main() -> int:
    from edgeserve import cli

    return cli.main(on_begin=lambda: _heed(_end_at_once, signal.default_int_handler))


def _heed(before: Handler, now: Handler) -> None:
    """Change what Ctrl-C does, if it does what is expected."""
    if signal.getsignal(signal.SIGINT) is before:
        signal.signal(signal.SIGINT, now)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def use_system_allocator(environ: Mapping[str, str]) -> None:
    """Start this process again, under its own pid, with the C library's allocator for Python's small objects.

    Python's own keeps a megabyte for as long as one object in it lives, so the dictionaries of a closed phonemizer do
    not quite return: measured, 3 MB more with each cycle, against 0.5 (docs/decisions/0003-allocator.md). Whoever sets
    PYTHONMALLOC keeps what it says; elsewhere than on glibc, which can trim its heap, nothing happens.
    """
    import ctypes

    if ALLOCATOR not in environ and hasattr(ctypes.CDLL(None), "malloc_trim"):
        command = [sys.executable, *sys.orig_argv[1:]]
        # Held back until ``run`` heeds it once more: the interpreter would die of it, or print a traceback.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        os.execve(sys.executable, command, {**environ, ALLOCATOR: "malloc"})  # noqa: S606 - our own command again


if __name__ == "__main__":
    sys.exit(run())
