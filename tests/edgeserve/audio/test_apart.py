"""Sound files in children give what the same files give here; bombs harm nobody."""

from __future__ import annotations

import contextlib
import contextvars
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from support import bombs
from support.children import gone
from support.decoders import living
from support.server import until
from support.sounds import FORMS, Form, encoded, melody

from edgeserve import clients
from edgeserve.audio.apart import DECODER_MEMORY, SHARED, SharedClip, SoundFilesApart
from edgeserve.audio.files import SoundFiles, SoundFilesHere
from edgeserve.audio.piped import Piped
from edgeserve.clients import Client
from edgeserve.errors import (
    Cancelled,
    InvalidRequest,
    MemoryPressure,
    UnsupportedMedia,
)
from edgeserve.media.children import Children
from edgeserve.media.leash import Leash
from edgeserve.media.task import most
from edgeserve.processes.codec import Passed
from edgeserve.processes.frames import Channel, Kind
from edgeserve.processes.launcher import make_launcher
from edgeserve.processes.resting import Resting
from edgeserve.system import pages
from edgeserve.units import MB

pytestmark = pytest.mark.slow  # real decoders, in processes of their own

FLAC = encoded(melody(25), Form("flac", "flac", 16_000))


@pytest.fixture(scope="module")
def files() -> Iterator[SoundFilesApart]:
    made = SoundFilesApart(Children(make_launcher(SHARED)))
    yield made
    made.close()


def checked(files: SoundFiles, data: bytes, max_seconds: float = 7200) -> Any:
    return files.check(data, max_seconds, "file", Leash())


def sounding(clip: Any) -> list[bytes]:
    """The pieces, without the empty ones of a decoder that takes its time."""
    return list(filter(None, clip.pieces()))


@pytest.mark.parametrize("name", ["wav", "mp3", "m4a", "opus", "webm"])
def test_a_child_hears_what_this_process_hears(files: SoundFilesApart, name: str) -> None:
    data = encoded(melody(12, FORMS[name].rate), FORMS[name])
    there, here = checked(files, data), checked(SoundFilesHere(), data)
    assert there.seconds == here.seconds
    assert sounding(there) == sounding(here)


def test_pieces_come_from_the_start_each_time(files: SoundFilesApart) -> None:
    clip = checked(files, FLAC)
    first = sounding(clip)
    assert [len(piece) // 4 for piece in first] == [160_000, 160_000, 80_000]
    assert sounding(clip) == first


DAMAGED = bytearray(FLAC)
DAMAGED[len(DAMAGED) // 2] ^= 1
REFUSED = {
    "empty": (b"", 7200),
    "no sound": (b"#EXTM3U\nhttp://127.0.0.1/\n", 7200),
    "cut": (FLAC[: len(FLAC) // 2], 7200),
    "damaged": (bytes(DAMAGED), 7200),
    "long": (FLAC, 24),
    "no samples": (encoded(melody(0), FORMS["flac"]), 7200),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_client_reads_the_same_error(files: SoundFilesApart, name: str) -> None:
    data, seconds = REFUSED[name]
    raised = []
    for one in (files, SoundFilesHere()):
        with pytest.raises(InvalidRequest) as error:
            list(checked(one, data, seconds).pieces())
        raised.append((error.type, error.value.message, error.value.param))
    assert raised[0] == raised[1]


BOMBS = {
    "fragment": (UnsupportedMedia, "file is no audio, or broken"),
    "compressed movie": (UnsupportedMedia, "file is no audio, or broken"),
    "matroska": (UnsupportedMedia, "file is cut into too many packets"),
    "matroska of samples": (UnsupportedMedia, "file is cut into too many packets"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_and_the_server_does_not_grow(files: SoundFilesApart, name: str) -> None:
    kind, told = BOMBS[name]
    data = bombs.SOUNDS[name]()
    checked(files, FLAC)  # so that what the first check needs is there
    before = pages.private_bytes()
    with pytest.raises(kind, match=told):
        checked(files, data)
    assert pages.private_bytes() - before < 5 * MB


def test_a_reader_that_leaves_ends_the_decoder(files: SoundFilesApart) -> None:
    clip: SharedClip = checked(files, FLAC)
    before = living()
    pieces = clip.pieces()
    assert len(next(filter(None, pieces))) == 640_000
    (decoder,) = living() - before
    pieces.close()  # type: ignore[attr-defined]
    assert gone(decoder)


def test_a_decoder_that_is_killed_is_no_fault_of_its_file(files: SoundFilesApart) -> None:
    with checked(files, encoded(melody(60), Form("flac", "flac", 16_000))).decode() as decoding:
        pieces = decoding.pieces()
        next(filter(None, pieces))
        os.kill(decoding.pid, signal.SIGKILL)
        with pytest.raises(MemoryPressure, match="the sound decoder was killed by the system"):
            list(pieces)
    assert gone(decoding.pid)


def test_a_client_that_left_gets_no_check(files: SoundFilesApart) -> None:
    leash = Leash()
    leash.cut()
    for one in (files, SoundFilesHere()):
        with pytest.raises(Cancelled):
            one.check(FLAC, 7200, "file", leash)


class Left(Leash):
    """The leash of a client that leaves once its file has been checked."""

    holds = 0

    def hold(self, kill: Callable[[], None]) -> None:
        super().hold(kill)
        self.holds += 1
        if self.holds == 2:
            self.cut()

    def check(self) -> None:
        super().check()
        if not self.holds:
            self.cut()


def test_a_client_that_left_gets_no_samples(files: SoundFilesApart) -> None:
    before = living()
    for one in (files, SoundFilesHere()):
        with pytest.raises(Cancelled):
            one.samples(FLAC, 7200, "file", Left())
    until(lambda: not living() - before)


def test_the_samples_of_a_file_are_its_pieces(files: SoundFilesApart) -> None:
    for one in (files, SoundFilesHere()):
        assert one.samples(FLAC, 7200, "file", Leash()) == b"".join(checked(one, FLAC).pieces())


OTHER = """
import sys
from edgeserve.audio.piped import Piped
from edgeserve.processes.codec import Passed
sound = Piped(Passed(int(sys.argv[1])), 25.0, "file")
count = 0
try:
    for piece in filter(None, sound.pieces()):
        count += len(piece) // 4
        print(count, flush=True)
        if len(sys.argv) > 2 and sys.stdin.readline() == "leave":
            break
except Exception as error:
    print(type(error).__name__, error)
"""


def other(descriptor: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OTHER, str(descriptor), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[descriptor])


def test_another_process_reads_the_decoder(files: SoundFilesApart) -> None:
    with checked(files, FLAC).decode() as decoding, other(decoding.descriptor) as reader:
        assert reader.communicate(timeout=30)[0].split() == ["160000", "320000", "400000"]


def test_another_process_reads_the_decoders_error(files: SoundFilesApart) -> None:
    whole = encoded(melody(12, 44_100), FORMS["mp3"])
    damaged = whole[:40_000] + numpy.random.default_rng(1).bytes(3000) + whole[43_000:]
    with checked(files, damaged).decode() as decoding, other(decoding.descriptor) as reader:
        told = reader.communicate(timeout=30)[0]
    assert "InvalidRequest file is damaged at" in told


def test_another_process_tells_of_a_decoder_that_died(files: SoundFilesApart) -> None:
    sound = encoded(melody(60), Form("flac", "flac", 16_000))
    with checked(files, sound).decode() as decoding, other(decoding.descriptor, "slowly") as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "160000\n"
        os.kill(decoding.pid, signal.SIGKILL)
        told = reader.communicate("\n" * 6, timeout=30)[0]
    assert "UnsupportedMedia file makes its decoder fail, or takes more memory" in told


def test_another_process_tells_of_a_decoder_without_memory() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        decoder = Channel(theirs)
        decoder.send(Kind.EVENTS, 0, None, bytes(4000))
        decoder.send(Kind.DONE, 0, {"lacking": True})
        pieces = Piped(Passed(ours.fileno()), 25.0, "file").pieces()
        assert len(next(filter(None, pieces))) == 4000
        with pytest.raises(UnsupportedMedia, match="or takes more memory"):
            list(pieces)


@pytest.mark.parametrize(("seconds", "size"), [(25.0, 4001), (1.0, 4 * 16_000 * 12)])
def test_samples_that_no_decoder_sends_are_refused(seconds: float, size: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(theirs).send(Kind.EVENTS, 0, None, bytes(4000))
        threading.Thread(target=Channel(theirs).send, args=[Kind.EVENTS, 0, None, bytes(size)], daemon=True).start()
        pieces = Piped(Passed(ours.fileno()), seconds, "file", max_seconds=seconds).pieces()
        assert len(next(filter(None, pieces))) == 4000
        with pytest.raises(UnsupportedMedia, match="file makes its decoder fail"):
            list(pieces)


@pytest.mark.parametrize("name", ["wav", "mp3", "m4a", "opus", "webm"])
def test_a_decoder_on_a_small_machine_has_enough(name: str) -> None:
    files = SoundFilesApart(Children(make_launcher(SHARED)), machine=300 * MB)
    with contextlib.closing(files):
        assert sounding(checked(files, encoded(melody(12, FORMS[name].rate), FORMS[name])))


@pytest.mark.parametrize(
    ("machine", "file", "megabytes"),
    [(300, 8, 56), (600, 28, 76), (4096, 28, 156), (16_384, 1, 513), (65_536, 1, 1024)],
)
def test_a_decoder_may_take_less_on_a_small_machine(machine: int, file: int, megabytes: int) -> None:
    """Decoders of crafted files took more together than the machine had, and answers of others were stopped."""
    assert most(DECODER_MEMORY, machine * MB, file * MB) == megabytes * MB


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_where_memory_runs_out_the_kernel_ends_children_of_one_request_first(files: SoundFilesApart) -> None:
    """It ended the largest process, which may be the server. The child of all encoders serves many answers."""
    clip = checked(files, encoded(melody(12, FORMS["mp3"].rate), FORMS["mp3"]))
    with contextlib.closing(clip.decode()) as decoding:
        next(filter(None, decoding.pieces()))
        assert score(decoding.pid) == 1000
        before = living()
        with contextlib.closing(files.encoder("mp3", 24_000)) as encoder:
            encoder.add(bytes(4800))
            (child,) = living() - before
            assert score(os.getpid()) < score(child) < 1000


def score(pid: int) -> int:
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as file:
        return int(file.read())


def test_a_decoder_is_known_by_its_client_and_an_encoder_by_none() -> None:
    """The client whose decoders hold most loses one as memory runs critical."""
    forks = Resting(lambda: make_launcher(SHARED))
    with contextlib.closing(SoundFilesApart(Children(forks))) as files:
        context = contextvars.copy_context()
        context.run(clients.current.set, Client("ann"))
        clip = checked(files, encoded(melody(12, FORMS["mp3"].rate), FORMS["mp3"]))
        with contextlib.closing(context.run(clip.decode)):
            assert [child.client for child in forks.running()] == [("ann",)]
        with contextlib.closing(context.run(files.encoder, "mp3", 24_000)):
            assert [child.client for child in forks.running()] == [None]
