"""A child bounds itself before it reads its input."""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.children import first

from edgeserve.media import bounded
from edgeserve.processes.frames import Channel, Kind
from edgeserve.processes.launcher import make_launcher
from edgeserve.system import confinement
from edgeserve.units import MB


def told(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Entry: addresses in use before ``limit``, the limits that it sets, whether it takes rights, and its priority."""
    with open(bounded.STATM, encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    bounded.limit(arguments["memory"], arguments["cpu"], arguments["shared"])
    names = ("AS", "CPU", "CORE")
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in names}
    refused = {"landlock": _refused(lambda: open("/etc/passwd").close()), "seccomp": _refused(socket.socket)}
    sock.sendall(json.dumps([used, limits, refused, os.getpriority(os.PRIO_PROCESS, 0)]).encode())


def _refused(act: Callable[[], object]) -> bool:
    try:
        act()
    except PermissionError:
        return True
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="macOS bounds no addresses")
@pytest.mark.parametrize("shared", [False, True])
def test_the_bounds_are_those_that_were_asked_for(shared: bool) -> None:
    launcher = make_launcher([__name__])
    try:
        with launcher.launch(f"{__name__}:told", {"memory": 64 * MB, "cpu": 3, "shared": shared}, "test") as child:
            used, limits, refused, priority = json.loads(first(child))
    finally:
        launcher.stop()
    assert 64 * MB <= limits["AS"][0] - used < 65 * MB
    assert limits["AS"][0] == limits["AS"][1]
    assert limits["CPU"] == [3, 4]
    assert limits["CORE"] == [1, 1]
    step = 0 if shared else bounded.NICE
    assert priority == min(19, os.getpriority(os.PRIO_PROCESS, 0) + step), "engines do not go first"
    on = {layer: words.startswith("on") for layer, words in confinement.available().items()}
    assert refused == {"landlock": on["landlock"], "seccomp": on["seccomp"]}


def test_no_input_is_no_work() -> None:
    ours, theirs = socket.socketpair()
    worked: list[object] = []
    with theirs:
        ours.close()
        answer(theirs, worked)
    assert not worked


def answer(sock: socket.socket, worked: list[object]) -> None:
    """``bounded.answer`` in this process, which must not be bounded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "limit", lambda memory, cpu, shared: None)
        bounds = {"memory": 0, "cpu": None, "shared": False}
        bounded.answer(sock, bounds, lambda channel, frame: worked.append(frame.head))


def test_a_server_that_wants_no_more_is_no_failure() -> None:
    ours, theirs = socket.socketpair()
    worked: list[object] = []
    with theirs:
        Channel(ours).send(Kind.RUN, 0, "work")
        ours.close()
        answer(theirs, worked)
    assert worked == ["work"]
