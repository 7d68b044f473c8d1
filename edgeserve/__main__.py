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
    """Run the command; returns its exit code. Ctrl-C ends it with 130 and no traceback, also at its begin and end.

    During imports Ctrl-C kills the process, because Python swallows some KeyboardInterrupts there. A process that was
    started with Ctrl-C ignored (nohup, a script's background) continues to ignore it.
    """
    _set_interrupt(signal.default_int_handler, _end_at_once)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # blocked while this process was started again
    from edgeserve.system import streams

    streams.open_closed()
    if sys.argv[1:2] == ["serve"]:
        use_system_allocator(os.environ)
    try:
        code = main()
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        _set_interrupt(signal.default_int_handler, _end_at_once)
        streams.finish()
    return code


def main() -> int:
    from edgeserve import cli

    return cli.main(on_begin=lambda: _set_interrupt(_end_at_once, signal.default_int_handler))


def _set_interrupt(before: Handler, now: Handler) -> None:
    """Set the handler of Ctrl-C to ``now``, if it is ``before``."""
    if signal.getsignal(signal.SIGINT) is before:
        signal.signal(signal.SIGINT, now)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def use_system_allocator(environ: Mapping[str, str]) -> None:
    """Start this process again, with the same pid and the C library's allocator for Python's small objects.

    Python's own allocator does not return all memory of a closed engine (docs/decisions/0003-allocator.md). A value of
    PYTHONMALLOC stays in force. Nothing happens without glibc, which can trim its heap.
    """
    import ctypes

    if ALLOCATOR not in environ and hasattr(ctypes.CDLL(None), "malloc_trim"):
        command = [sys.executable, *sys.orig_argv[1:]]
        # Blocked until ``run`` handles Ctrl-C: the interpreter would die of it, or print a traceback.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        os.execve(sys.executable, command, {**environ, ALLOCATOR: "malloc"})  # noqa: S606 - our own command again


if __name__ == "__main__":
    sys.exit(run())
