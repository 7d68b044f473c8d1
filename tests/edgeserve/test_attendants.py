"""Attendants of the server, on a server and a clock of the test."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from support.gates import Clock, HeldAnswer
from support.server import fake_pool, serving, until

from edgeserve import activity, server
from edgeserve.activity import Activity
from edgeserve.attendants import Attendant, IdleExit, Renewal, Served, Systemd, Tuner
from edgeserve.connections import Patience
from edgeserve.errors import ConfigError
from edgeserve.models.served import own_name
from edgeserve.system.notify import Notifier


class Work:
    """A server as an attendant sees it."""

    def __init__(self) -> None:
        self.busy = self.failing = False
        self.asked = 0
        self.ended = 0

    def end_idle(self) -> None:
        self.ended += 1


class Tunings:
    """Measurements that are told what the server does."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def look(self) -> None:
        self.told.append("look")

    def stop(self) -> None:
        self.told.append("stop")


def test_a_measurement_goes_on_only_while_nobody_works() -> None:
    tunings, work = Tunings(), Work()
    one = Tuner(tunings)  # type: ignore[arg-type]
    one.look(work)  # type: ignore[arg-type]
    work.busy = True
    one.look(work)  # type: ignore[arg-type]
    one.end_begins()
    assert tunings.told == ["look", "stop", "stop"]


def test_systemd_hears_of_the_start_the_life_and_the_end(tmp_path: Path) -> None:
    path, clock, work = str(tmp_path / "notify"), Clock(), Work()
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as link:
        link.bind(path)
        link.setblocking(False)
        one = Systemd(Notifier({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "40000000"}), clock)

        def heard() -> list[str]:
            told = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    told.append(link.recv(200).decode().partition("\n")[0])
            return told

        asyncio.run(one.begin())
        assert heard() == ["READY=1"]
        for seconds, told in [(9.9, []), (0.2, ["WATCHDOG=1"]), (0.2, []), (10, ["WATCHDOG=1"])]:
            clock.now += seconds
            one.look(work)  # type: ignore[arg-type]
            assert heard() == told
        work.failing = True
        clock.now += 100
        one.look(work)  # type: ignore[arg-type]
        assert heard() == [], "a restart is what helps"
        one.end_begins()
        assert heard() == ["STOPPING=1"]


def test_an_idle_server_ends_once() -> None:
    clock, work = Clock(), Work()
    one = IdleExit(60, clock)

    def look(seconds: float) -> int:
        clock.now += seconds
        one.look(work)  # type: ignore[arg-type]
        return work.ended

    assert look(0) == 0
    assert look(59) == 0
    work.asked = 1
    assert look(2) == 0, "a request came"
    work.busy = True
    assert look(600) == 0, "it still runs"
    work.busy = False
    assert look(59) == 0
    assert look(2) == 1
    assert look(60) == 1


@pytest.mark.slow
def test_the_server_of_nobody_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "LOOK_SECONDS", 0.05)
    with serving(fake_pool(["llm"]), attendants=[IdleExit(0.2)]) as running:
        running.server.look_seconds = 0.05
        until(lambda: running.server.should_exit)


@pytest.mark.slow
def test_every_attendant_is_told_of_the_whole_life() -> None:
    told: list[str] = []

    class Witness(Attendant):
        async def begin(self) -> None:
            told.append("begin")

        def look(self, server: Any) -> None:
            if "look" not in told:
                told.append("look")

        def end_begins(self) -> None:
            told.append("end begins")

        async def end(self) -> None:
            told.append("end")

    with serving(fake_pool(["llm"]), attendants=[Witness()]):
        until(lambda: "look" in told)
    assert told == ["begin", "look", "end begins", "end"]


def test_an_attendant_that_fails_stops_neither_the_others_nor_the_deadlines(caplog: pytest.LogCaptureFixture) -> None:
    looks: list[int] = []

    class Broken(Attendant):
        def look(self, server: Any) -> None:
            raise OSError("nothing works")

    class Witness(Attendant):
        def look(self, server: Any) -> None:
            looks.append(len(looks))

    with serving(fake_pool(["llm"]), attendants=[Broken(), Witness()], patience=Patience(head=0.2)) as running:
        until(lambda: len(looks) >= 3)
        address = running.client.base_url.host, running.client.base_url.port or 0
        with contextlib.closing(socket.create_connection(address, timeout=10)) as link:
            assert link.recv(1) == b"", "a client that sends nothing loses its connection, as ever"
    assert "Broken could not look at the server" in caplog.text


class Files:
    """A certificate and its maker."""

    def __init__(self) -> None:
        self.looks = self.renewals = 0
        self.threads: set[int] = set()
        self.error: ConfigError | None = None

    def look(self) -> None:
        self.looks += 1

    def renew(self) -> None:
        self.renewals += 1
        self.threads.add(threading.get_ident())
        if self.error:
            raise self.error


def test_the_certificate_is_looked_at_each_time_and_its_end_each_hour(caplog: pytest.LogCaptureFixture) -> None:
    clock, files, work = Clock(), Files(), Work()
    one = Renewal(files, files, clock)  # type: ignore[arg-type]
    for _ in range(3):
        one.look(work)  # type: ignore[arg-type]
    assert (files.looks, files.renewals) == (3, 0)
    files.error = ConfigError("openssl is gone")
    clock.now += 3601
    one.look(work)  # type: ignore[arg-type]
    one.look(work)  # type: ignore[arg-type]
    until(lambda: "the certificate is not renewed: openssl is gone" in caplog.text)
    assert (files.looks, files.renewals) == (5, 1)
    assert threading.get_ident() not in files.threads, "openssl takes its time, and the event loop waits for nobody"


def test_the_served_models_are_listed_while_the_server_runs(tmp_path: Path) -> None:
    folders = {"hibari"}
    one, work = Served(tmp_path, lambda: folders), Work()
    asyncio.run(one.begin())
    (path,) = tmp_path.iterdir()
    assert path.read_text() == "hibari\n"
    folders.add("mine")
    one.look(work)  # type: ignore[arg-type]
    assert path.read_text() == "hibari\nmine\n"
    one.drained()
    assert list(tmp_path.iterdir()) == []


def test_the_list_stays_until_the_last_answer_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server looks at its attendants during the drain, too."""
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.02)
    body = {"messages": [{"role": "user", "content": "one two"}], "stream": True}
    looks = 0

    class Counted(Served):
        def look(self, server: Activity) -> None:
            nonlocal looks
            super().look(server)
            looks += 1

    served = Counted(tmp_path, lambda: ["hibari"])
    with (
        serving(fake_pool(["llm"]), attendants=[served]) as running,
        HeldAnswer(running.pool.gates["llm"]) as held,
        running.client.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        running.server.should_exit = True
        until(lambda: not any(one.is_serving() for one in running.server.servers))
        before = looks
        until(lambda: looks > before + 1)
        assert [path.name for path in tmp_path.iterdir()] == [own_name()]
        held.go.set()
        assert any("[DONE]" in line for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_writing_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, work = Served(tmp_path / "nowhere", lambda: ["hibari"]), Work()
    with caplog.at_level("INFO"):
        asyncio.run(one.begin())
        one.look(work)  # type: ignore[arg-type]
        one.drained()
    assert caplog.text.count("not told which models are in use") == 1


def test_a_full_disk_is_told_once_and_the_list_is_written_when_it_has_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One full moment ended the list of a server for good: others could remove its models."""
    one, work = Served(tmp_path, lambda: ["hibari"]), Work()

    def full(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as now, caplog.at_level("INFO"):
        now.setattr(os, "pwrite", full)
        asyncio.run(one.begin())
        one.look(work)  # type: ignore[arg-type]
    assert caplog.text.count("not told which models are in use") == 1
    one.look(work)  # type: ignore[arg-type]
    assert (tmp_path / own_name()).read_text() == "hibari\n"
    one.drained()
