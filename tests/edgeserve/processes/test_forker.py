"""A fork server that dies, stops, or finds no room; its imports."""

from __future__ import annotations

import errno
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.children import SECONDS, first, gone, linux, read
from support.descriptors import leaves_no_descriptor
from support.server import until

from edgeserve.errors import Busy, EngineFailure, ShuttingDown
from edgeserve.processes import forker as module
from edgeserve.processes import interpreter
from edgeserve.processes.forker import Forker

ECHO, WAIT, REPORT = "support.entries:echo", "support.entries:wait", "support.entries:report"
pytestmark = linux


@pytest.fixture
def forker() -> Iterator[Forker]:
    forker = Forker()
    yield forker
    forker.stop()


def pid_of(forker: Forker) -> int:
    assert forker.pid
    return forker.pid


@pytest.mark.slow
def test_a_start_needs_no_launch(forker: Forker) -> None:
    forker.start()
    pid = pid_of(forker)
    with forker.launch(ECHO, {}, "test") as child:
        assert psutil.Process(child.pid).ppid() == pid == pid_of(forker)
    assert psutil.Process(pid).name() == "edgeserve: forks"


def test_the_kernel_takes_children_first_and_the_server_last(forker: Forker) -> None:
    def score(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    with forker.launch(WAIT, {}, "test") as child:
        assert first(child) == b"x"
        mine = score(os.getpid())
        assert score(pid_of(forker)) == min(1000, mine + 400)
        assert score(child.pid) == min(1000, mine + 500)


def test_a_dead_fork_server_is_replaced(forker: Forker, caplog: pytest.LogCaptureFixture) -> None:
    with forker.launch(WAIT, {}, "test") as old:
        assert first(old) == b"x"
        dead = pid_of(forker)
        os.kill(dead, signal.SIGKILL)
        assert old.wait(SECONDS) == -signal.SIGKILL
        until(lambda: gone(old.pid))
        with forker.launch(ECHO, {"new": 1}, "test") as new:
            assert first(new) == b'{"new": 1}'
        assert pid_of(forker) != dead
    assert not psutil.pid_exists(dead)


def test_a_fork_server_that_dies_at_each_launch_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    forker = Forker(["support.dead_forks"])
    with pytest.raises(EngineFailure, match="died twice"):
        forker.launch(ECHO, {}, "test")
    forker.stop()


@pytest.mark.slow
def test_a_dead_fork_server_is_logged_with_its_code(forker: Forker, caplog: pytest.LogCaptureFixture) -> None:
    forker.start()
    process = psutil.Process(pid_of(forker))
    process.kill()
    until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    with caplog.at_level(logging.ERROR, "edgeserve.processes"):
        forker.start()
    assert "died with code -9" in caplog.text


def test_a_fork_server_that_gives_no_answer_is_a_failure_and_wakes(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with forker.launch(ECHO, {}, "test"):
        pass
    monkeypatch.setattr(forker._server, "_seconds", 0.05)
    stopped = psutil.Process(pid_of(forker))
    stopped.suspend()
    until(lambda: stopped.status() == psutil.STATUS_STOPPED)
    with pytest.raises(EngineFailure, match=r"gave no answer in 0.05 s; try again"):
        forker.launch(ECHO, {}, "test")
    until(lambda: stopped.status() != psutil.STATUS_STOPPED)
    monkeypatch.undo()
    with forker.launch(ECHO, {}, "test") as child:
        # The child that it forked late had nobody, and was killed.
        until(lambda: [one.pid for one in stopped.children()] == [child.pid])


@pytest.mark.slow
def test_a_stopped_fork_server_still_ends_its_children(forker: Forker) -> None:
    with forker.launch(WAIT, {}, "test") as child:
        server = psutil.Process(pid_of(forker))
        server.suspend()
        until(lambda: server.status() == psutil.STATUS_STOPPED)
        assert child.kill() == -signal.SIGKILL


def test_a_system_without_processes_is_busy() -> None:
    forker = Forker(["support.no_forks"])
    with pytest.raises(Busy, match=r"no process for test: Resource temporarily unavailable \(errno 11\)") as refused:
        forker.launch(ECHO, {}, "test")
    assert refused.value.retry_after
    forker.stop()


def test_a_refused_fork_server_is_busy_and_leaves_no_descriptor(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(module: str, descriptors: list[int]) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(interpreter, "begin", refuse)

    def start() -> None:
        with pytest.raises(Busy, match="no process for workers: Resource temporarily unavailable"):
            forker.start()

    leaves_no_descriptor(start)


def test_a_fork_server_without_descriptors_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_SECONDS", 0.0)
    forker = Forker(["support.no_descriptors"])
    with pytest.raises(EngineFailure, match="has no descriptor left"):
        forker.launch(ECHO, {}, "test")
    monkeypatch.undo()
    forker.stop()


def test_children_have_what_the_fork_server_imported() -> None:
    forker = Forker(["colorsys", "edgeserve.units"])
    with forker.launch(REPORT, {}, "test") as child:
        found = read(child)
    forker.stop()
    assert {"colorsys", "edgeserve.units"} <= set(found["modules"])
    assert found["threads"] == 1


def test_an_import_that_fails_is_logged_and_hinders_nobody(caplog: pytest.LogCaptureFixture) -> None:
    forker = Forker(["no_such_module"])
    with caplog.at_level(logging.WARNING, "edgeserve.processes"), forker.launch(ECHO, {}, "test") as child:
        assert first(child) == b"{}"
    forker.stop()
    assert "cannot import no_such_module (ModuleNotFoundError" in caplog.text


def test_a_child_that_an_import_left_behind_is_reaped() -> None:
    forker = Forker(["support.strays"])
    with forker.launch(ECHO, {}, "test") as one, forker.launch(ECHO, {}, "test") as other:
        one.kill()
        until(lambda: [child.pid for child in psutil.Process(pid_of(forker)).children()] == [other.pid])
        assert other.exit is None
    forker.stop()


@pytest.mark.slow
def test_numpy_is_reseeded_in_each_child_and_starts_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    forker, found = Forker(["numpy", "numpy.random"]), []
    for _ in range(2):
        with forker.launch(REPORT, {}, "test") as child:
            found.append(read(child))
    forker.stop()
    (one, other) = (each["random"][1] for each in found)
    assert one is not None
    assert one != other
    assert "OPENBLAS_NUM_THREADS" not in found[0]["environment"] or "OPENBLAS_NUM_THREADS" in os.environ
    assert "threads" not in caplog.text


def test_a_stop_kills_the_children_and_the_fork_server(forker: Forker) -> None:
    with forker.launch(WAIT, {}, "test") as child:
        assert first(child) == b"x"
        server = pid_of(forker)
        forker.stop()
        assert not psutil.pid_exists(server)
        assert child.wait(SECONDS) == -signal.SIGKILL
        assert not psutil.pid_exists(child.pid), "the fork server reaped it"
    with pytest.raises(ShuttingDown):
        forker.launch(ECHO, {}, "test")


def test_a_child_whose_status_nobody_holds_is_killed(forker: Forker) -> None:
    child = forker.launch(WAIT, {}, "test")
    assert first(child) == b"x"
    child.socket.close()
    child._process.close()
    until(lambda: not psutil.pid_exists(child.pid))
