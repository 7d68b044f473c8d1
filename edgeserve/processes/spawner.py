"""A launcher whose every child is a fresh interpreter: where a fork is unsafe, and for children that stay."""

from __future__ import annotations

import contextlib
import threading
from contextlib import ExitStack

from edgeserve.errors import ShuttingDown
from edgeserve.processes import interpreter
from edgeserve.processes.child import Child, Children, Spawned, pair
from edgeserve.processes.start import Task


class Spawner:
    """A ``Launcher`` that starts a fresh interpreter for each child."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._children = Children()

    def start(self) -> None:
        """Nothing to prepare."""

    def launch(self, entry: str, arguments: dict[str, object], name: str) -> Child:
        if self._stopped.is_set():
            raise ShuttingDown(f"the server ends and starts no process for {name}")
        line = Task(entry, arguments, name).encode()
        with ExitStack() as kept, ExitStack() as given:
            try:
                ours, work = pair(kept, given)
                lifeline, rope = pair(kept, given)
                process = interpreter.begin("edgeserve.processes.start", [work.fileno(), rope.fileno()])
            except OSError as error:
                raise interpreter.refusal(name, error) from error
            given.close()
            with contextlib.suppress(ConnectionError):  # a child that is gone already shows by its exit code
                lifeline.sendall(line)
            kept.pop_all()
            return self._children.add(Child(Spawned(process, lifeline), ours, name))

    def pids(self) -> list[int]:
        return self._children.pids()

    def stop(self) -> None:
        """Refuse further launches. Each child ends when whoever launched it closes it."""
        self._stopped.set()
