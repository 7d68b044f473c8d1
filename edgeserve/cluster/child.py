"""A whole server as a child process: started, asked for its address, ended with whoever started it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, cast

from edgeserve.errors import EngineFailure
from edgeserve.processes.interpreter import module_command

ADDRESS = re.compile(r"(https?://\S+)")
END_SECONDS = 20.0
"""Time in which the server ends after SIGTERM; it lets answers under way end first."""


def serve_command() -> tuple[str, ...]:
    """The server on a free port. Its address and its settings come from the environment of the node."""
    return (*module_command("edgeserve"), "serve", "--port", "0", "--wyoming", "0", "--until-eof")


class Child:
    """A server that runs until ``stop``, or until this process ends, which closes a pipe to its stdin."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        """Start it, and wait for its greeting. Raises EngineFailure when it ends before."""
        self._process = subprocess.Popen(  # noqa: S603 - the command is the server itself
            command,
            env={**os.environ, **(environ or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.url = self._greeting(cast(IO[str], self._process.stdout))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def _greeting(self, stdout: IO[str]) -> str:
        """The address in the greeting. The other lines of the greeting fit into the pipe."""
        for line in stdout:
            if found := ADDRESS.search(line):
                return found[1].rstrip("/")
        self._close()
        raise EngineFailure(
            f"the server of this node did not start (exit code {self._process.wait()}); its log says why: "
            f"{' '.join(self._process.args)}"  # type: ignore[arg-type]
        )

    def stop(self) -> None:
        """End the server; idempotent."""
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            cast(IO[str], pipe).close()
