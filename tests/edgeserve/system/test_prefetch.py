"""Prefetch of model files: all files, only while a request waits for them and they fit, one fetch at a time."""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server import Running, fake_pool, serving, until

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.fake.chat import FakeChat
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import Job
from edgeserve.residency.pool import Pool
from edgeserve.system.prefetch import CHUNK, Prefetch


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "graph", tmp_path / "weights"]
    for path, size in zip(paths, (1000, 3 * CHUNK + 7), strict=True):
        path.write_bytes(bytes(size))
    return paths


class Asked:
    """Stands in for the system: what it was asked for, by file name; ``go`` holds it up."""

    def __init__(self) -> None:
        self.ranges: list[tuple[str, int, int]] = []
        self.entered, self.go = threading.Event(), threading.Event()
        self.go.set()

    def __call__(self, file: int, offset: int, length: int) -> None:
        self.entered.set()
        assert self.go.wait(10)
        self.ranges.append((Path(os.readlink(f"/proc/self/fd/{file}")).name, offset, length))


def make(files: Iterable[Path], wanted: Callable[[], bool] = lambda: True, room: int = 1 << 30) -> tuple[Any, Asked]:
    asked = Asked()
    return Prefetch(lambda: files, wanted, lambda: room, asked), asked


ALL = [("graph", 0, 1000), *(("weights", index * CHUNK, CHUNK) for index in range(3)), ("weights", 3 * CHUNK, 7)]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are read from /proc")
class TestRanges:
    def test_every_byte_of_every_file_is_asked_for(self, files: list[Path]) -> None:
        prefetch, asked = make([files[0], files[0].with_name("gone"), files[1]])
        prefetch.start()
        until(lambda: len(asked.ranges) == len(ALL))
        prefetch.stop()
        assert asked.ranges == ALL

    def test_the_fetch_ends_when_the_engine_is_hot(self, files: list[Path]) -> None:
        prefetch, asked = make(files, lambda: len(asked.ranges) < 3)
        prefetch.start()
        until(lambda: len(asked.ranges) == 3)
        prefetch.stop()
        assert asked.ranges == ALL[:3]

    def test_one_fetch_runs_at_a_time_and_another_later(self, files: list[Path]) -> None:
        prefetch, asked = make(files)
        asked.go.clear()
        others = set(threading.enumerate())  # those of earlier tests may end meanwhile

        def own() -> int:
            return len(set(threading.enumerate()) - others)

        for _ in range(5):
            prefetch.start()
        assert own() == 1
        asked.go.set()
        until(lambda: own() == 0)
        prefetch.start()
        until(lambda: own() == 0)
        assert asked.ranges == 2 * ALL

    def test_a_stopped_prefetch_never_starts_again(self, files: list[Path]) -> None:
        prefetch, asked = make(files)
        asked.go.clear()
        prefetch.start()
        assert asked.entered.wait(10)
        threading.Timer(0.01, asked.go.set).start()
        prefetch.stop()
        prefetch.start()
        assert asked.ranges == ALL[:1]


def test_too_little_free_memory_fetches_nothing(files: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    prefetch, asked = make(files, room=3 * CHUNK)
    with caplog.at_level(logging.DEBUG, "edgeserve.prefetch"):
        prefetch.start()
        until(lambda: "are not fetched ahead" in caplog.text)
    prefetch.stop()
    assert asked.ranges == []


def test_a_refusal_of_the_system_is_no_failure(files: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    def refuse(file: int, offset: int, length: int) -> None:
        raise OSError("not on this file system")

    prefetch = Prefetch(lambda: files, lambda: True, lambda: 1 << 30, refuse)
    with caplog.at_level(logging.DEBUG, "edgeserve.prefetch"):
        prefetch.start()
        until(lambda: "not on this file system" in caplog.text)
    prefetch.stop()


def test_nothing_is_fetched_for_a_hot_engine(files: list[Path]) -> None:
    before = set(threading.enumerate())
    make(files, lambda: False)[0].start()
    assert set(threading.enumerate()) <= before


def cached(path: Path) -> int:
    """Bytes of a file in the page cache."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        pages = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(start))
        assert ctypes.CDLL(None).mincore(address, ctypes.c_size_t(len(mapped)), pages) == 0
        del start
        return sum(page & 1 for page in pages) * mmap.PAGESIZE


@pytest.mark.skipif(sys.platform != "linux", reason="asks the page cache as Linux does")
def test_the_pages_arrive_in_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(os.urandom(16 << 20))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if cached(path) > 8 << 20:
        pytest.skip(f"{tmp_path} is on a file system that keeps all in memory")
    prefetch = Prefetch(lambda: [path], lambda: True, lambda: 1 << 30)
    prefetch.start()
    until(lambda: cached(path) >= 12 << 20, seconds=60)  # it is advice: a busy device may leave some of it out
    prefetch.stop()


def noted(running: Running) -> list[str]:
    """List of the jobs whose prefetch starts from now on."""
    jobs: list[str] = []
    for job, prefetch in running.pool.prefetches._by_model.items():
        prefetch.start = lambda job=job: jobs.append(job)  # type: ignore[method-assign, misc]
    return jobs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("configured", "path", "expected"),
    [
        (("llm", "vision"), "/v1/chat/completions", ["llm"]),
        (("vision", "asr"), "/v1/chat", ["vision"]),
        (("llm", "asr"), "/v1/transcribe/file", ["asr"]),
        (("tts",), "/v1/audio/speech", ["tts"]),
    ],
)
def test_the_fetch_begins_before_the_body_has_arrived(
    configured: tuple[Job, ...], path: str, expected: list[str]
) -> None:
    with serving(fake_pool(configured)) as running:
        jobs = noted(running)
        with send_head(running, path):
            until(lambda: jobs == expected)


def test_a_job_that_is_not_configured_has_no_files() -> None:
    with serving(fake_pool(["tts"])) as running:
        jobs = noted(running)
        assert running.client.post("/v1/chat", json={"prompt": "hello"}).status_code == 404
        assert jobs == []


def test_a_request_without_the_key_starts_no_fetch() -> None:
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        jobs = noted(running)
        with send_head(running, "/v1/chat") as connection:
            assert b" 401 " in connection.recv(100)
        assert jobs == []


def send_head(running: Running, path: str) -> socket.socket:
    host, port = running.url.rstrip("/").removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n".encode())
    return connection


def test_an_engine_may_name_other_files(files: list[Path], tmp_path: Path) -> None:
    class Prepared(FakeChat):
        def prefetch_files(self) -> Iterable[Path]:
            return files

    def pool_of(kind: type[FakeChat]) -> Pool:
        governor = fake_pool([]).governor
        engine = kind(ModelSpec("llm", "x", "e:E", {"model": tmp_path / "given"}))
        return Pool([ThreadHost(engine, governor)], governor)

    assert list(pool_of(FakeChat).prefetches._by_model["llm"]._files()) == [tmp_path / "given"]
    assert list(pool_of(Prepared).prefetches._by_model["llm"]._files()) == files


def test_a_hot_engine_wants_no_files(tmp_path: Path) -> None:
    pool = fake_pool(["llm"])
    wanted = pool.prefetches._by_model["llm"]._wanted
    assert wanted()
    pool.gates["llm"].preload()
    assert pool.gates["llm"].rung is Rung.HOT
    assert not wanted()
    assert pool.prefetches._room() > 0


def test_without_a_thread_nothing_is_fetched_and_the_request_goes_on(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    asked = Asked()
    prefetch = Prefetch(lambda: files, lambda: True, lambda: 1 << 40, asked)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        prefetch.start()
        prefetch.stop()
    assert asked.ranges == []
