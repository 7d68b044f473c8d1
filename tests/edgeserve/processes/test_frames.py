"""Frames cross as they were sent; whatever else a process sends is broken, and costs the other nothing."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.server import until

from edgeserve.errors import TooLarge
from edgeserve.processes.frames import (
    FROM_CHILD,
    HEADER,
    LARGE,
    MOST_BODY,
    MOST_DESCRIPTORS,
    MOST_HEAD,
    MOST_WAITING,
    SHARED,
    Broken,
    Channel,
    Kind,
    shared_memory,
)
from edgeserve.units import MB

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="memory is sealed on Linux only, and /proc lists descriptors"
)
Ends = tuple[socket.socket, Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The socket of another process, and a channel."""
    theirs, ours = socket.socketpair()
    with theirs:
        channel = Channel(ours)
        yield theirs, channel
        channel.close()


def descriptors() -> int:
    gc.collect()  # what another test left behind may go between two counts
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("size", [0, 1, LARGE, LARGE + 1, 3 * MB])
@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_a_frame_comes_as_it_was_sent(ends: Ends, size: int, kind: type[bytes] | type[memoryview]) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    sender = threading.Thread(target=Channel(ends[0]).send, args=[Kind.RUN, 7, {"a": [1]}, kind(body[:size])])
    sender.start()
    frame = ends[1].receive()
    sender.join(10)
    assert frame is not None
    assert (frame.kind, frame.number, frame.head, frame.descriptors) == (Kind.RUN, 7, {"a": [1]}, ())
    assert bytes(frame.body) == body[:size]


def test_frames_that_came_together_are_received_one_by_one(ends: Ends) -> None:
    theirs, channel = ends
    for number in range(3):
        Channel(theirs).send(Kind.TAKEN, number, None)
    theirs.shutdown(socket.SHUT_WR)
    frames = [channel.receive_rarely() for _ in range(4)]
    assert [one and one.number for one in frames] == [0, 1, 2, None]


@linux
def test_who_receives_rarely_is_not_woken_by_what_the_other_reads(ends: Ends) -> None:
    theirs, channel = ends
    waiting = threading.Thread(target=channel.receive_rarely)
    waiting.start()
    status = Path(f"/proc/self/task/{waiting.native_id}/status")

    def switches() -> int:
        return int(status.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    until(lambda: "State:\tS" in status.read_text())
    for _ in range(100):
        channel.send(Kind.PULSE, 0, None)
        theirs.recv(100)
    assert switches() < 50
    theirs.close()
    waiting.join(10)
    assert not waiting.is_alive()


@pytest.mark.parametrize("head", ["\ud83d\ude00", "é\ud800", "\ufeff", "\0\x7f\u2028", ["漢", {"🙂": 1e999}], None, 7])
def test_every_text_survives(ends: Ends, head: object) -> None:
    Channel(ends[0]).send(Kind.RUN, 0, head)
    frame = ends[1].receive()
    assert frame is not None
    assert frame.head == head


@pytest.mark.slow
def test_a_text_takes_no_more_room_than_as_utf8(ends: Ends) -> None:
    sender = threading.Thread(target=Channel(ends[0]).send, args=[Kind.RUN, 0, ["é" * (MOST_HEAD // 4)]])
    sender.start()
    frame = ends[1].receive()
    sender.join(60)
    assert frame is not None
    assert len(frame.head[0]) == MOST_HEAD // 4


@pytest.mark.slow
def test_what_the_other_process_would_not_take_is_not_sent(ends: Ends) -> None:
    channel = Channel(ends[0])
    with pytest.raises(TooLarge, match="64 MB of text and 0 MB of other data do not fit"):
        channel.send(Kind.PREPARE, 1, "a" * MOST_HEAD)
    refused = pytest.raises(TooLarge, match="0 MB of text and 1025 MB of other data")
    with mmap.mmap(-1, MOST_BODY + MB) as vast, memoryview(vast) as body, refused:  # pages that nobody touches
        channel.send(Kind.PREPARE, 1, None, body)
    channel.send(Kind.CANCEL, 2, None)
    frame = ends[1].receive()
    assert frame is not None
    assert frame.number == 2


def test_descriptors_come_in_their_order(ends: Ends) -> None:
    held = [os.memfd_create(str(number)) if sys.platform == "linux" else os.dup(0) for number in range(3)]
    Channel(ends[0]).send(Kind.RUN, 0, None, bytes(2 * MB), held)
    frame = ends[1].receive()
    assert frame is not None
    assert len(frame.body) == 2 * MB
    assert [os.fstat(one).st_ino for one in frame.descriptors] == [os.fstat(one).st_ino for one in held]
    frame.close()
    for one in held:
        os.close(one)


def test_the_end_is_none(ends: Ends) -> None:
    ends[0].sendall(HEADER.pack(2, 0, 0, Kind.RUN, 0))
    ends[0].close()
    assert ends[1].receive() is None


def header(
    head: bytes = b"{}", heads: int | None = None, bodies: int = 0, kind: int = Kind.RUN, count: int = 0
) -> bytes:
    return HEADER.pack(len(head) if heads is None else heads, bodies, 0, kind, count) + head


BROKEN = {
    "a large head": header(heads=MOST_HEAD + 1),
    "a large body beside shared memory": header(bodies=LARGE + 1),
    "too many descriptors": header(count=MOST_DESCRIPTORS + 1),
    "no descriptor": header(count=1),
    "no shared memory": header(bodies=2 * MB, count=SHARED),
    "no kind": header(kind=99),
    "no JSON": header(b"{"),
    "a deep head": header(b"[" * 100_000),
}


@pytest.mark.parametrize("name", BROKEN)
def test_other_bytes_are_broken(ends: Ends, name: str) -> None:
    sender = threading.Thread(target=ends[0].sendall, args=[BROKEN[name]])
    sender.start()
    with pytest.raises(Broken):
        ends[1].receive()
    sender.join(10)


def send(sock: socket.socket, data: bytes, passed: Sequence[int]) -> None:
    """Send, and give up the descriptors."""
    socket.send_fds(sock, [data], passed)
    for one in passed:
        os.close(one)


@linux
def test_memory_that_may_change_is_broken(ends: Ends) -> None:
    loose = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.truncate(loose, 2 * MB)
    before = descriptors()
    send(ends[0], header(bodies=2 * MB, count=SHARED | 1), [loose])
    with pytest.raises(Broken, match="may change"):
        ends[1].receive()
    until(lambda: descriptors() <= before - 1)


@linux
@pytest.mark.parametrize("path", ["/dev/zero", sys.executable])
def test_a_file_is_no_shared_memory(ends: Ends, path: str) -> None:
    send(ends[0], header(bodies=LARGE + 1, count=SHARED | 1), [os.open(path, os.O_RDONLY)])
    with pytest.raises(Broken, match="shared memory"):
        ends[1].receive()


@linux
def test_shared_memory_that_is_shorter_is_broken(ends: Ends) -> None:
    send(ends[0], header(bodies=2 * MB, count=SHARED | 1), [shared_memory(bytes(MB))])
    with pytest.raises(Broken, match="less than 2097152 bytes"):
        ends[1].receive()


@linux
def test_descriptors_that_no_frame_promises_are_not_gathered(ends: Ends) -> None:
    before, rounds = descriptors(), MOST_WAITING // MOST_DESCRIPTORS
    with open("/dev/null", "rb") as null:
        for _ in range(rounds + 1):
            socket.send_fds(ends[0], [header()], [null.fileno()] * MOST_DESCRIPTORS)
    for _ in range(rounds):
        assert ends[1].receive() is not None
    with pytest.raises(Broken, match="descriptors came that no frame promises"):
        ends[1].receive()
    ends[1].close()
    until(lambda: descriptors() <= before - 1)


@linux
def test_a_broken_frame_closes_its_descriptors(ends: Ends) -> None:
    before = descriptors()
    send(ends[0], header(b"{", count=1), [os.open("/dev/null", os.O_RDONLY)])
    with pytest.raises(Broken):
        ends[1].receive()
    until(lambda: descriptors() <= before)


def test_a_process_that_reads_nothing_is_told_of(ends: Ends) -> None:
    ends[1].limit_sending(0.05)

    def fill() -> None:
        for _ in range(64):
            ends[1].send(Kind.RUN, 0, None, bytes(LARGE))

    with pytest.raises(TimeoutError, match="reads nothing"):
        fill()


def test_a_frame_that_stays_torn_ends_the_connection() -> None:
    class Failing(socket.socket):
        def sendall(self, data: object, flags: int = 0) -> None:
            raise MemoryError

    theirs, ours = socket.socketpair()
    other, channel = Channel(theirs), Channel(Failing(fileno=ours.detach()))
    ours.close()
    channel.limit_sending(1.0)
    with pytest.raises(MemoryError):
        channel.send(Kind.RUN, 1, None, bytes(LARGE))
    with pytest.raises(BrokenPipeError):
        channel.send(Kind.CANCEL, 2, None)
    assert other.receive() is None
    channel.close()
    other.close()


def test_a_frame_of_which_nothing_was_sent_ends_no_connection() -> None:
    """The system may have no room for its descriptors. Others' answers use the connection, too."""

    class Full(socket.socket):
        full = True

        def sendmsg(self, *given: Any) -> int:
            if self.full:
                raise OSError(errno.ETOOMANYREFS, "too many references")
            return super().sendmsg(*given)

    theirs, ours = socket.socketpair()
    full = Full(fileno=ours.detach())
    other, channel = Channel(theirs), Channel(full)
    with pytest.raises(OSError, match="too many references"):
        channel.send(Kind.RUN, 1, None)
    full.full = False
    channel.send(Kind.CANCEL, 2, None)
    frame = other.receive()
    assert frame is not None
    assert frame.number == 2
    channel.close()
    other.close()


@linux
def test_a_child_passes_no_descriptor_but_shared_memory(ends: Ends) -> None:
    ours, theirs = socket.socketpair()
    before = descriptors()
    with theirs, ours:
        reader, writer = Channel(ours, FROM_CHILD), Channel(theirs)
        writer.send(Kind.RUN, 0, None, bytes(2 * MB))
        frame = reader.receive()
        assert frame is not None
        assert len(frame.body) == 2 * MB
        writer.send(Kind.RUN, 0, None, descriptors=[theirs.fileno()])
        with pytest.raises(Broken, match="1 descriptors"):
            reader.receive()
        reader.close()
    assert descriptors() <= before


@linux
def test_shared_memory_that_is_broken_closes_the_other_descriptors(ends: Ends) -> None:
    before = descriptors()
    passed = [shared_memory(bytes(MB)), os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)]
    send(ends[0], header(bodies=2 * MB, count=SHARED | 3), passed)
    with pytest.raises(Broken, match="less than"):
        ends[1].receive()
    until(lambda: descriptors() <= before)


@linux
def test_small_bodies_are_not_shared(ends: Ends) -> None:
    send(ends[0], header(bodies=0, count=SHARED | 1), [shared_memory(b"")])
    with pytest.raises(Broken, match="0 bytes with 1 descriptors"):
        ends[1].receive()


@linux
def test_memory_that_cannot_be_filled_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    before = descriptors()
    with pytest.raises(OSError, match="No space left"):
        shared_memory(b"data")
    until(lambda: descriptors() <= before)


def test_who_waits_for_a_frame_need_not_wait_for_ever() -> None:
    ours, theirs = map(Channel, socket.socketpair())
    assert not ours.comes(0)
    assert not ours.comes(0.001)
    for number in (1, 2):
        theirs.send(Kind.EVENTS, number, None)
    assert ours.comes()
    assert (found := ours.receive()) is not None
    assert found.number == 1
    assert ours.comes(0), "the second one was read with the first"
    assert ours.receive() is not None
    assert not ours.comes(0)
    theirs.close()
    assert ours.comes(0), "the end comes, too"
    assert ours.receive() is None
    ours.close()
