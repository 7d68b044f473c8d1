"""Framed messages over a stream socket between two processes of one machine.

    head length (4 bytes)  body length (4)  number (4)  kind (1)  descriptors (1)  |  head, JSON  |  body, raw bytes

A body above ``LARGE`` travels as shared memory whose descriptor is passed, and is read where it lies. Nothing is
pickled: a process whose native code a crafted file has taken over can send bytes, and no code.
"""

from __future__ import annotations

import array
import contextlib
import enum
import fcntl
import json
import mmap
import os
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.errors import Busy, TooLarge
from edgeserve.units import MB

HEADER = struct.Struct("<IIIBB")
LARGE = MB
"""Bytes of a body that still goes through the socket."""
MOST_HEAD, MOST_BODY, MOST_DESCRIPTORS = 64 * MB, 1024 * MB, 16
MOST_WAITING = 4 * MOST_DESCRIPTORS  # that have come before their frames were read
READ = 64 * 1024
RETRY_SECONDS = 5.0
SHARED = 1 << 7  # flag beside the number of descriptors: the first one holds the body


class Kind(enum.IntEnum):
    """The meaning of a frame. The upper ones go to the worker, the lower ones come from it."""

    CALL = 1
    """Do one step or return one figure of the engine, after the answers under way."""
    PREPARE = 2
    RUN = 3
    CANCEL = 4
    TAKEN = 5
    """The reader has taken bytes of an answer."""
    FORGET, KEEP = 6, 9
    """Drop a prepared request. Hold at most so many bytes of states of past prompts."""
    STOP = 7
    DETECT = 8
    """Tell speech from other sounds, beside the answers under way."""

    EVENTS = 20
    """Events of answers, in order."""
    DONE = 21
    """A call, a preparation or an answer has ended, well or with an error."""
    STATE = 22
    """Rung and figures of the engine have changed."""
    PULSE = 23
    LOG = 24


class Broken(Exception):
    """The other process sent something that is no frame."""


@dataclass(frozen=True, slots=True)
class Most:
    """Limits of a frame that a process accepts from the other: bytes of its head and body, and descriptors."""

    head: int = MOST_HEAD
    body: int = MOST_BODY
    descriptors: int = MOST_DESCRIPTORS


FROM_CHILD = Most(8 * MB, MOST_BODY, 0)
"""Limits for a child, which a crafted file may have taken over. JSON takes up to 20 times its size once it is read, and
a descriptor that nobody expects stays open."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message. ``head``: JSON, as Python has it."""

    kind: Kind
    number: int
    head: Any
    body: memoryview
    descriptors: tuple[int, ...] = ()
    """Descriptors that the receiver now owns."""

    def close(self) -> None:
        """Close the descriptors that nobody wants."""
        for one in self.descriptors:
            os.close(one)


class Channel:
    """One end of the socket. Any thread sends; one thread receives."""

    def __init__(self, connection: socket.socket, most: Most | None = None) -> None:
        connection.setblocking(True)
        self._most = most or Most()
        self._socket = connection
        self._sending = threading.Lock()
        self._received = bytearray()
        self._coming = select.poll()
        self._coming.register(connection, select.POLLIN)
        self._passed: deque[int] = deque()

    def fileno(self) -> int:
        return self._socket.fileno()

    def limit_sending(self, seconds: float) -> None:
        """Let ``send`` raise TimeoutError when the other process reads nothing for so many seconds."""
        pause = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pause)

    def send(
        self,
        kind: Kind,
        number: int,
        head: object,
        body: bytes | memoryview = b"",
        descriptors: Sequence[int] = (),
    ) -> None:
        """Send one frame; blocks while the socket is full. Raises OSError when the other process has gone.

        Raises TooLarge for a frame that the other process would not take. Raises Busy when the system has no memory or
        descriptor left for a large body. Nothing was sent then. A frame that was sent in part ends the connection. The
        caller keeps its descriptors. ``head`` is anything that JSON can hold; lone surrogates survive.
        """
        text = _written(head)
        passed, flag, size = list(descriptors), 0, len(body)
        if len(text) > MOST_HEAD or size > MOST_BODY:
            sizes = f"{len(text) / MB:.0f} MB of text and {size / MB:.0f} MB of other data"
            most = f"one message to the engine's process, which takes {MOST_HEAD // MB} and {MOST_BODY // MB} MB"
            raise TooLarge(f"{sizes} do not fit into {most}: send less")
        shared = _shared(body) if size > LARGE else None
        if shared is not None:
            passed, flag, body = [shared, *passed], SHARED, b""
        try:
            lead = HEADER.pack(len(text), size, number, kind, len(passed) | flag)
            with self._sending:
                self._send([lead, text, body], passed)
        finally:
            if shared is not None:
                os.close(shared)

    def _send(self, parts: Sequence[bytes | memoryview], passed: Sequence[int]) -> None:
        sent = 0
        try:
            sent = socket.send_fds(self._socket, parts, list(passed)) if passed else self._socket.sendmsg(parts)
            if sent < sum(map(len, parts)):
                self._socket.sendall(memoryview(b"".join(parts))[sent:])
        except BlockingIOError as error:  # SO_SNDTIMEO
            raise TimeoutError("the other process reads nothing") from error
        except BaseException:
            if sent:  # the other process would read the next frame as the rest of this one
                self._socket.shutdown(socket.SHUT_RDWR)
            raise

    def comes(self, seconds: float | None = None) -> bool:
        """Whether something has come, or the end, after a wait of so many seconds at most; None: however long."""
        return bool(self._received or self._coming.poll(None if seconds is None else 1000 * seconds))

    def receive_rarely(self) -> Frame | None:
        """As ``receive``, which Linux also wakes each time the other process has read something."""
        self.comes()
        return self.receive()

    def receive(self) -> Frame | None:
        """The next frame; None when the other process has closed its end. Raises Broken and OSError."""
        lead = self._take(HEADER.size)
        if lead is None:
            return None
        heads, bodies, number, kind, count = HEADER.unpack(lead)
        shared, count = bool(count & SHARED), count & ~SHARED
        fits = LARGE < bodies <= self._most.body if shared else bodies <= LARGE
        if heads > self._most.head or not fits or not shared <= count <= self._most.descriptors + shared:
            raise Broken(f"a frame of {heads} and {bodies} bytes with {count} descriptors")
        text = self._take(heads)
        body = self._take(0 if shared else bodies)
        if text is None or body is None:
            return None
        passed = self._descriptors(count)
        try:
            if shared:
                body = _mapped(passed.pop(0), bodies)
            return Frame(Kind(kind), number, json.loads(text), memoryview(body), tuple(passed))
        except BaseException as error:
            for one in passed:
                os.close(one)
            if isinstance(error, ValueError | RecursionError):
                raise Broken(f"a frame of kind {kind}: {error}") from error
            raise

    def close(self) -> None:
        """End the connection; the other process reads its end. A ``receive`` that waits returns None."""
        with contextlib.suppress(OSError):  # the other process closed it first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        while self._passed:
            os.close(self._passed.popleft())

    def _take(self, size: int) -> bytes | None:
        """The next ``size`` bytes; None at the end of the stream."""
        while len(self._received) < size:
            data, ancillary, _, _ = self._socket.recvmsg(
                max(READ, size - len(self._received)), socket.CMSG_SPACE(4 * MOST_DESCRIPTORS), _CLOEXEC
            )
            self._keep(ancillary)
            if not data:
                return None
            self._received += data
        taken = bytes(memoryview(self._received)[:size])
        del self._received[:size]
        return taken

    def _keep(self, ancillary: Sequence[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(data[: len(data) // found.itemsize * found.itemsize])
                self._passed.extend(found)
        if len(self._passed) > MOST_WAITING:
            raise Broken(f"{len(self._passed)} descriptors came that no frame promises")

    def _descriptors(self, count: int) -> list[int]:
        if len(self._passed) < count:
            raise Broken(f"{count} descriptors are promised and {len(self._passed)} came")
        return [self._passed.popleft() for _ in range(count)]


def _written(head: object) -> bytes:
    """JSON with every character as it is: escaped, a text of two-byte characters would take three times as much."""
    return json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
SEALS = sum(getattr(fcntl, name, 0) for name in ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_WRITE"))
"""Linux: nobody can cut, lengthen or write the memory. 0 elsewhere."""


def shared_memory(data: bytes | memoryview) -> int:
    """The descriptor of memory that holds ``data``, for another process. Nobody can change it any more, on Linux."""
    descriptor = _unnamed()
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if SEALS:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _shared(body: bytes | memoryview) -> int:
    try:
        return shared_memory(body)
    except OSError as error:
        text = f"the system has no memory or descriptor left for {len(body):,} bytes: {error.strerror}; try again"
        raise Busy(text, retry_after=RETRY_SECONDS) from error


def _unnamed() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("edgeserve", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    import tempfile

    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor


def _mapped(descriptor: int, size: int) -> Any:
    """The body where it lies. Closes ``descriptor``. Raises Broken when it holds less, or on Linux may still change."""
    try:
        if os.fstat(descriptor).st_size < size:
            raise Broken(f"shared memory of less than {size} bytes")
        if SEALS:
            if not _is_sealed(descriptor):
                raise Broken("shared memory that the other process may change")
            # Native code takes the address of writable memory only. Nobody writes; a page would be copied first.
            return mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
        return os.pread(descriptor, size, 0)  # the other process could cut it: a mapping would end this one
    finally:
        os.close(descriptor)


def _is_sealed(descriptor: int) -> bool:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & SEALS == SEALS
    except OSError:  # no shared memory at all
        return False
