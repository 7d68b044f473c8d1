"""Words to systemd, heard by a socket of the test."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cases import each

from edgeserve.system.notify import Notifier


@contextlib.contextmanager
def heard(address: str) -> Iterator[socket.socket]:
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as link:
        link.bind(address)
        link.settimeout(10)
        yield link


def test_a_manager_hears_each_word(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with heard(path) as link:
        one = Notifier({"NOTIFY_SOCKET": path})
        assert one
        one.tell("READY=1", "STATUS=answers")
        assert link.recv(100) == b"READY=1\nSTATUS=answers"


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="only Linux has abstract names")
def test_an_abstract_name(tmp_path: Path) -> None:
    name = f"edgeserve-test-{os.getpid()}"
    with heard(f"\0{name}") as link:
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).tell("STOPPING=1")
        assert link.recv(100) == b"STOPPING=1"


def test_without_a_manager_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    one = Notifier({"WATCHDOG_USEC": "60000000"})
    assert not one
    one.tell("READY=1")
    assert one.watchdog_seconds == 0
    assert not caplog.text


def test_a_manager_that_has_gone_is_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).tell("READY=1")
    assert "systemd was not told READY=1" in caplog.text


@each(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "x"}, 0),
        ({}, 0),
    ],
)
def test_the_time_of_the_watchdog(variables: dict[str, str], seconds: float) -> None:
    assert Notifier({"NOTIFY_SOCKET": "/run/x", **variables}).watchdog_seconds == seconds
