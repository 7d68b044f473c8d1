"""The server's side of one short-lived child: frames, its end, and the error that its end means to the client."""

from __future__ import annotations

import logging
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from edgeserve.errors import EdgeserveError
from edgeserve.media.leash import Leash
from edgeserve.media.task import Task
from edgeserve.processes import failures
from edgeserve.processes.child import Child, described
from edgeserve.processes.closing import Closing
from edgeserve.processes.frames import FROM_CHILD, Broken, Channel, Frame, Kind
from edgeserve.units import MB

log = logging.getLogger("edgeserve.media")

END_SECONDS = 10.0
"""Longest time between the end of a child's socket and its exit code: a busy machine takes seconds to end a process."""


class Helper(Closing):
    """A child at work. One thread at a time uses it; ``leash`` may kill the child from any other.

    ``check`` raises ShuttingDown when the child was ended because the server ends.
    """

    def __init__(self, child: Child, task: Task, leash: Leash, check: Callable[[], None] = lambda: None) -> None:
        self.task = task
        self._child, self._leash, self._check_going = child, leash, check
        self._channel = Channel(child.socket, FROM_CHILD)
        self._limit_waiting(task.bounds.patience)
        self._closed = self._told = False
        try:
            leash.hold(lambda: child.signal(signal.SIGKILL))
        except BaseException:
            self.close()
            raise

    def _limit_waiting(self, seconds: float) -> None:
        pause = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        self._child.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, pause)
        self._channel.limit_sending(seconds)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def descriptor(self) -> int:
        """The socket from which another process may read the frames instead. It stays the helper's own."""
        return self._channel.fileno()

    @property
    def runs(self) -> bool:
        """Whether the child has not ended."""
        return self._child.exit is None

    def send(
        self,
        head: object,
        body: bytes = b"",
        descriptors: Sequence[int] = (),
        kind: Kind = Kind.RUN,
        number: int = 0,
    ) -> None:
        """Send a frame. Raises the error that the child's end means to the client."""
        try:
            self._channel.send(kind, number, head, body, descriptors)
        except TimeoutError:
            raise self.silent() from None
        except OSError:
            raise self.verdict() from None

    def comes(self, seconds: float) -> bool:
        """As ``Channel.comes``."""
        return self._channel.comes(seconds)

    def receive(self) -> Frame:
        """The next frame: EVENTS, or DONE at the end. Raises the child's error, or the one that its end means."""
        try:
            frame = self._channel.receive()
        except BlockingIOError:  # SO_RCVTIMEO
            raise self.silent() from None
        except (Broken, OSError) as error:
            self._leash.check()  # killed before it had read its file, it resets the connection
            self._tell(f"it sent no frame ({error})")
            frame = None
        if frame is None:
            raise self.verdict()
        if frame.kind is not Kind.EVENTS:
            self._check(frame)
        return frame

    def result(self) -> Any:
        """The result of work that sends nothing else. Raises as ``receive`` does."""
        frame = self.receive()
        if frame.kind is not Kind.DONE:
            raise self.nonsense()
        return frame.head["result"]

    def _check(self, frame: Frame) -> None:
        """Raises the error in the last frame. A child that its input has taken over may send anything."""
        self._leash.check()
        match frame.kind, frame.head:
            case Kind.DONE, {"result": _}:
                return
            case Kind.DONE, {"lacking": _}:
                raise self._out_of_memory("its own limit")
            case Kind.DONE, {"error": value}:
                raise self.error(value)
        raise self.nonsense()

    def error(self, value: Any) -> EdgeserveError:
        """The error that ``value`` tells of, as ``failures.write_error`` writes it."""
        try:
            return failures.read_error(value)
        except ValueError:
            return self.nonsense()

    def nonsense(self) -> EdgeserveError:
        """The error for a child that sends what its work cannot have as a result."""
        self._child.kill()
        self._tell("it sent no answer; killed")
        return self.task.failed("no answer")

    def verdict(self) -> EdgeserveError:
        """The error that the end of the child means. The log has the cause."""
        code = self._child.wait(END_SECONDS)
        self._leash.check()
        self._check_going()
        task, bounds = self.task, self.task.bounds
        if code is None:
            self._child.kill()
            self._tell("it closed its socket and went on; killed")
            return task.failed("no answer")
        if code == -signal.SIGXCPU:
            self._tell(f"it took more than {bounds.cpu} s of processor time")
            return task.too_large(f"takes more than {bounds.cpu} s of processor time")
        if code == -signal.SIGKILL:
            self._tell("SIGKILL, most likely from the kernel, which had no memory left")
            return task.killed()
        self._tell(described(code))
        return task.failed(described(code))

    def check_end(self) -> None:
        """Raise the error that the child's end means, unless it has ended well or continues."""
        if self._child.wait(END_SECONDS):
            raise self.verdict()

    def _out_of_memory(self, why: str) -> EdgeserveError:
        self._tell(f"out of memory: {why}")
        return self.task.too_large(f"takes more than {self.task.bounds.memory // MB} MB of memory")

    def silent(self) -> EdgeserveError:
        """The error for a child that says nothing for too long, which ends here."""
        self._child.kill()
        self._leash.check()
        patience = self.task.bounds.patience
        self._tell(f"it said nothing for {patience:g} s; killed")
        return self.task.too_large(f"takes longer than {patience:g} s")

    def _tell(self, why: str) -> None:
        """Log the end of the child, once."""
        if not self._told:
            self._told = True
            log.warning("%s (pid %d) ended early: %s", self.task.name, self.pid, why)

    def close(self) -> None:
        """Kill the child unless it has ended, and reap it. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if not self._leash.is_cut and (code := self._child.exit):  # another process read it, and cannot know why
            self._tell(described(code))
        self._leash.let_go()
        self._child.close()
        self._channel.close()
