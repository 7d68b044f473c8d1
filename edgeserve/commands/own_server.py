"""A server for one command, where none runs."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import FrameType
from typing import IO, cast

from edgeserve.commands import Call
from edgeserve.commands.remote import URL, Server, server
from edgeserve.commands.served import LOOK_SECONDS
from edgeserve.errors import EdgeserveError, EngineFailure
from edgeserve.processes.interpreter import module_command

ADDRESS = re.compile(r"serves on (https?://\S+)")
END_SECONDS = 20.0
"""Time in which the server ends when its command has ended."""


@contextlib.contextmanager
def serving(call: Call) -> Iterator[Server]:
    """The running server that the call means; else one of its settings on a free port, which ends with the block.

    Raises EdgeserveError where the call names a server that does not answer, and EngineFailure where none starts.
    """
    one = server(call)
    try:
        one.ask("GET", "/v1/models", seconds=LOOK_SECONDS)
    except EdgeserveError:
        if call.args.url or call.args.port or call.environ.get(URL):
            raise
    else:
        yield one
        return
    with _started(call) as url:
        yield Server(url, one.key, one.trusted)


@contextlib.contextmanager
def _started(call: Call) -> Iterator[str]:
    command = [*module_command("edgeserve"), "serve", "--host", "127.0.0.1", "--port", "0", "--wyoming", "0"]
    command += ["--log-level", call.args.log_level or "warning"]
    command += ["--config", call.args.config] if call.args.config else []
    process = subprocess.Popen(  # noqa: S603
        command,
        env=dict(call.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C stops an answer, not the server
    )
    try:
        with _ending_by_signals():
            yield _address(process, cast(IO[str], process.stdout))
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        cast(IO[str], process.stdout).close()


@contextlib.contextmanager
def _ending_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as an error does, so that its server ends with it."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _address(process: subprocess.Popen[str], stdout: IO[str]) -> str:
    """The address in the greeting. Its other lines fit into the pipe."""
    for line in stdout:
        if found := ADDRESS.search(line):
            return found[1]
    raise EngineFailure(f"no server runs, and none could be started; it ended with exit code {process.wait()}")
