"""Files for engines in processes of their own: a child decodes, and the engine reads."""

from __future__ import annotations

import base64
import contextlib
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy
import psutil
import pytest
from support import bombs
from support.gates import fake_spec
from support.hosts import Pipe
from support.server import Running, serving, until
from support.sounds import FORMS, encoded, melody

from edgeserve.audio.wav import wav
from edgeserve.hosts.process_host import ProcessHost
from edgeserve.jobs import Job
from edgeserve.memory.governor import make_governor
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.named import make_engine
from edgeserve.processes.launcher import make_launcher
from edgeserve.processes.roster import Roster
from edgeserve.residency.pool import Pool

pytestmark = pytest.mark.slow  # real decoders, in processes of their own

MP3 = encoded(melody(12, 44_100), FORMS["mp3"])
LONG = encoded(melody(90), FORMS["mp3"])
"""More samples than a socket holds."""
DAMAGED = MP3[:40_000] + numpy.random.default_rng(1).bytes(3000) + MP3[43_000:]


@contextlib.contextmanager
def serving_apart(*jobs: Job, **options: object) -> Iterator[Running]:
    """A server whose engines live in workers."""
    roster, governor = Roster(), make_governor(MemoryPolicy())
    launcher = roster.add(make_launcher(["edgeserve.hosts.worker_entry"]))
    hosts = [ProcessHost(make_engine(fake_spec(job, **options)), launcher, governor) for job in jobs]
    with serving(Pool(hosts, governor, roster=roster), isolation="process") as running:
        yield running


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving_apart("asr", "vision") as running:
        yield running


def hear(running: Running, data: bytes) -> tuple[int, Any]:
    answer = running.client.post("/v1/transcribe/file", files={"audio": ("said", data)})
    return answer.status_code, answer.json()


def descriptors(running: Running) -> int:
    """Open descriptors of the worker."""
    pid = cast(ProcessHost, running.pool.gates["asr"].host).pid
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_a_worker_reads_what_a_child_decodes(running: Running) -> None:
    status, heard = hear(running, MP3)
    assert status == 200
    assert heard["text"].split() == [str(second) for second in range(1, 13)]


def test_a_worker_hears_the_speakers_of_what_a_child_decodes() -> None:
    """The file goes to two workers one after the other; references go as samples."""
    quiet, loud = (numpy.full(16_000, volume, "<i2").tobytes() for volume in (8192, 16_384))
    known = base64.b64encode(wav([loud], 16_000)).decode()
    form = {"response_format": "diarized_json", "known_speaker_names[]": "Ann", "known_speaker_references[]": known}
    with serving_apart("asr", "speaker") as running:
        files = {"file": ("talk.wav", wav([quiet, loud], 16_000))}
        answer = running.client.post("/v1/audio/transcriptions", data=form, files=files).json()
    assert [(one["speaker"], one["text"]) for one in answer["segments"]] == [("A", "1"), ("Ann", "2")]


def test_a_worker_tells_the_decoders_error(running: Running) -> None:
    status, heard = hear(running, DAMAGED)
    assert status == 400
    assert heard["error"]["message"].startswith("audio is damaged at")
    assert heard["error"]["param"] == "audio"


@pytest.mark.skipif(sys.platform != "linux", reason="finds the decoder by its title")
def test_a_decoder_that_the_system_killed_is_no_fault_of_the_file(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path, "word")
    with serving_apart("asr", hold=str(tmp_path)) as running, ThreadPoolExecutor(1) as thread:
        answer = thread.submit(hear, running, LONG)
        with pipe.reached():  # the engine has the first samples, and the decoder waits with more
            for child in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):  # another one has ended meanwhile
                    if "sound decoder" in " ".join(child.cmdline()):
                        child.kill()
        status, heard = answer.result(30)
    assert (status, heard["error"]["code"]) == (503, "memory_pressure")
    assert heard["error"]["message"].startswith("the sound decoder was killed by the system")


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_a_worker_keeps_no_descriptor(running: Running) -> None:
    hear(running, MP3)
    before = descriptors(running)
    for data in (MP3, DAMAGED, MP3, DAMAGED):
        hear(running, data)
    until(lambda: descriptors(running) == before)


def pictures_mapped() -> list[str]:
    """The pictures in the memory of all workers."""
    lines = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            lines += Path(f"/proc/{child.pid}/maps").read_text().splitlines()
    return [line for line in lines if "memfd:edgeserve" in line]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the map of a process in /proc")
def test_a_worker_keeps_no_picture(running: Running) -> None:
    """A thread that waits for the next request would keep the latest one: up to 180 MB while nobody asks."""
    file = {"image": ("seen", bombs.deep_png(700, 700))}
    assert running.client.post("/v1/vision/analyze", files=file, data={"prompt": "what?"}).status_code == 200
    until(lambda: not pictures_mapped())


def test_a_request_that_is_refused_keeps_no_picture(running: Running) -> None:
    """Not even until the next collection: the pictures of all requests together are bounded."""
    file = {"image": ("seen", bombs.deep_png(700, 700))}
    gc.collect()
    gc.disable()
    try:
        answer = running.client.post("/v1/vision/analyze", files=file, data={"prompt": "word " * 2000})
        assert answer.status_code == 400, answer.text
        until(lambda: running.app.state.picture_files.held == 0)
    finally:
        gc.enable()
    if sys.platform == "linux":
        until(lambda: not pictures_mapped())


@pytest.mark.parametrize("side", [8, 700])
def test_a_worker_gets_pixels(running: Running, side: int) -> None:
    """The fake engine names the bytes that it gets: three a pixel, of which the larger ones are shared memory."""
    file = {"image": ("seen", bombs.deep_png(side, side))}
    answer = running.client.post("/v1/vision/analyze", files=file, data={"prompt": "what?"})
    assert answer.status_code == 200, answer.text
    assert f"1 images of {3 * side * side} bytes" in answer.text
