"""Every end of a child is an error that names the field and what to do, and leaves no process behind."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from collections.abc import Iterator

import psutil
import pytest
from support.children import gone
from support.decoders import HERE
from support.server import until

from edgeserve.errors import (
    Cancelled,
    EdgeserveError,
    EngineFailure,
    InvalidRequest,
    MemoryPressure,
    ShuttingDown,
    TooLarge,
    UnsupportedMedia,
)
from edgeserve.media import helper as helper_module
from edgeserve.media.children import Children
from edgeserve.media.leash import Leash
from edgeserve.media.task import Bounds, Task
from edgeserve.processes.launcher import make_launcher
from edgeserve.units import MB


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    made = Children(make_launcher([HERE]))
    yield made
    made.close()


def task(param: str | None = "file", bounds: Bounds | None = None) -> Task:
    return Task(f"{HERE}:work", "test decoder", "file", bounds or Bounds(), param, "send WAV")


def test_the_result_comes_back_and_the_child_ends(children: Children) -> None:
    with children.start(task()) as helper:
        helper.send("result", bytes(3 * MB))
        assert helper.result() == ["result", 3 * MB, helper.pid]
    assert gone(helper.pid)


DEATHS = [
    ("crash", UnsupportedMedia, "file makes its decoder fail (SIGSEGV); send WAV", "ended early: SIGSEGV"),
    ("abort", UnsupportedMedia, "file makes its decoder fail (SIGABRT); send WAV", "ended early: SIGABRT"),
    ("raise", UnsupportedMedia, "file makes its decoder fail (exit code 1); send WAV", "ended early: exit code 1"),
    ("exit", UnsupportedMedia, "file makes its decoder fail (exit code 3); send WAV", "ended early: exit code 3"),
    (
        "nonsense",
        UnsupportedMedia,
        "file makes its decoder fail (no answer); send WAV",
        "it sent no frame",
    ),
    ("let go", UnsupportedMedia, "file makes its decoder fail (no answer); send WAV", "closed its socket and went on"),
    ("fill", TooLarge, "file takes more than 256 MB of memory; send WAV", "out of memory: its own limit"),
    pytest.param(
        *("spin", TooLarge, "file takes more than 1 s of processor time; send WAV", "more than 1 s of processor time"),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("way", "kind", "told", "logged"), DEATHS)
def test_each_death_has_its_error(
    children: Children,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    kind: type[EdgeserveError],
    told: str,
    logged: str,
) -> None:
    if way in ("let go", "nonsense"):
        monkeypatch.setattr(helper_module, "END_SECONDS", 0.05)
    caplog.set_level(logging.WARNING, "edgeserve.media")
    with children.start(task(bounds=Bounds(256 * MB, cpu=1 if way == "spin" else 30))) as helper:
        helper.send(way)
        with pytest.raises(kind) as raised:
            helper.receive()
    assert raised.type is kind
    assert raised.value.message == told
    assert raised.value.param == "file"
    assert logged in caplog.text
    assert gone(helper.pid)


@pytest.mark.parametrize("way", ["no result", "no head", "no error", "another kind", "too early"])
def test_a_child_that_sends_something_else_is_killed(
    children: Children, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level(logging.WARNING, "edgeserve.media")
    with children.start(task()) as helper:
        helper.send(way)
        with pytest.raises(UnsupportedMedia, match=r"file makes its decoder fail \(no answer\); send WAV"):
            helper.result()
        assert gone(helper.pid)
    assert caplog.text.count("ended early: it sent no answer; killed") == 1


def test_a_death_that_another_process_meets_is_logged(children: Children, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "edgeserve.media")
    with children.start(task()) as helper:
        helper.send("crash")
        assert select.select([helper.descriptor], [], [], 20)[0]
        assert helper._child.wait(20) == -signal.SIGSEGV
    assert caplog.text.count("ended early: SIGSEGV") == 1


def test_a_child_that_the_system_killed_is_no_fault_of_its_file(children: Children) -> None:
    with children.start(task()) as helper:
        helper.send("kill")
        with pytest.raises(MemoryPressure, match=r"^the test decoder was killed by the system.*try again$") as raised:
            helper.receive()
        with pytest.raises(MemoryPressure):
            helper.check_end()
    assert raised.value.retry_after == 5


def test_a_child_that_ended_well_has_no_bad_end(children: Children) -> None:
    with children.start(task()) as helper:
        helper.send("refuse")
        with pytest.raises(InvalidRequest):
            helper.receive()
        helper.check_end()


def test_an_error_of_the_product_comes_as_it_was_raised(children: Children) -> None:
    with children.start(task()) as helper:
        helper.send("refuse")
        with pytest.raises(InvalidRequest, match=r"^the file is damaged$") as raised:
            helper.receive()
    assert raised.value.param == "file"


def test_a_child_without_a_word_is_killed(children: Children) -> None:
    with children.start(task(bounds=Bounds(patience=0.05))) as helper:
        helper.send("wait")
        with pytest.raises(TooLarge, match=r"file takes longer than 0\.05 s; send WAV"):
            helper.receive()
        assert gone(helper.pid)


def test_a_child_that_ended_before_it_read_has_the_same_error(children: Children) -> None:
    with children.start(Task(f"{HERE}:early", "test decoder", "file", Bounds(), "file")) as helper:
        assert helper._child.wait(20) == 0
        with pytest.raises(UnsupportedMedia, match=r"^file makes its decoder fail \(exit code 0\)$"):
            helper.send("result", bytes(MB))


def test_the_servers_own_input_is_no_fault_of_the_client(children: Children) -> None:
    with children.start(Task(f"{HERE}:work", "mp3 encoder", "encoding mp3", Bounds())) as helper:
        helper.send("crash")
        with pytest.raises(EngineFailure, match=r"^encoding mp3 failed: its process ended early \(SIGSEGV\)$"):
            helper.receive()


def test_a_leash_kills_the_child_while_somebody_waits_for_it(children: Children) -> None:
    leash, ended = Leash(), threading.Event()
    with children.start(task(bounds=Bounds(cpu=30)), leash) as helper:
        helper.send("spin")

        def wait() -> None:
            with pytest.raises(Cancelled):
                helper.receive()
            ended.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        leash.cut()
        waiter.join(20)
        assert ended.is_set()
    assert gone(helper.pid)


def test_a_client_that_leaves_before_its_file_is_read_is_no_line_of_the_log(
    children: Children, caplog: pytest.LogCaptureFixture
) -> None:
    leash = Leash()
    with children.start(task(), leash) as helper:
        os.kill(helper.pid, signal.SIGSTOP)
        until(lambda: psutil.Process(helper.pid).status() == psutil.STATUS_STOPPED)
        helper.send("result", b"unread")
        leash.cut()
        with pytest.raises(Cancelled):
            helper.receive()
    assert not caplog.text


def test_a_leash_that_is_cut_starts_nothing(children: Children) -> None:
    leash = Leash()
    leash.cut()
    with pytest.raises(Cancelled):
        children.start(task(), leash)


def test_the_end_of_the_server_is_no_fault_of_the_file() -> None:
    children = Children(make_launcher([HERE]))
    with children.start(task()) as helper:
        helper.send("wait")
        children.close()
        with pytest.raises(ShuttingDown, match="the server ends and decodes nothing more"):
            helper.receive()
    assert gone(helper.pid)


def test_closing_twice_ends_once(children: Children) -> None:
    helper = children.start(task())
    helper.close()
    helper.close()
    assert gone(helper.pid)
