"""A process gives up its rights. tests/edgeserve/processes/test_allowed.py tries what an attacker would."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edgeserve.system import confinement, landlock, libc, rlimits, seccomp
from edgeserve.system.confinement import Confined, Confinement, available, confine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines processes")

BEGIN = """
import os, sys
from pathlib import Path
from edgeserve.system.confinement import Confinement, confine
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BEGIN + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def without(monkeypatch: pytest.MonkeyPatch, *layers: str) -> None:
    """A machine on which these layers are refused, and where the others do nothing."""

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    for module, name, layer in (
        (libc, "process_control", "no_new_privs"),
        (rlimits, "lower", "rlimits"),
        (landlock, "restrict", "landlock"),
        (seccomp, "install", "seccomp"),
    ):
        done: Callable[..., object] = dict if name == "lower" else lambda *_, **__: 7
        monkeypatch.setattr(module, name, refuse if layer in layers else done)
    monkeypatch.setattr(confinement, "_require_one_thread", lambda: None)


@pytest.mark.parametrize("layer", confinement.LAYERS)
def test_a_layer_that_is_lacking_is_told_and_costs_no_other(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, layer)
    confined = confine(Confinement())
    assert list(confined.off) == [layer]
    assert confined.words[layer].startswith("off: ")
    assert set(confined.on) == set(confinement.LAYERS) - {layer}


def test_elsewhere_only_limits_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(confinement, "TASKS", Path("/nowhere"))
    monkeypatch.setattr(threading, "active_count", lambda: 2)  # a spawned child watches its server's life
    assert confine(Confinement()).words == {
        "no_new_privs": "off: only Linux has it",
        "rlimits": "on, CORE 1, NOFILE 256",
        "landlock": "off: only Linux has it",
        "seccomp": "off: only Linux has it",
    }


def test_words_name_the_layers_in_their_order() -> None:
    confined = Confined({"seccomp": "", "rlimits": "CORE 1"}, {"landlock": "no reason"})
    assert list(confined.words.items()) == [
        ("rlimits", "on, CORE 1"),
        ("landlock", "off: no reason"),
        ("seccomp", "on"),
    ]


def test_asking_changes_nothing() -> None:
    before = Path("/proc/self/status").read_text()
    assert set(available()) == set(confinement.LAYERS)
    kept = ("NoNewPrivs", "Seccomp")
    after = Path("/proc/self/status").read_text()
    assert [line for line in after.splitlines() if line.startswith(kept)] == [
        line for line in before.splitlines() if line.startswith(kept)
    ]
    assert Path("/etc/passwd").read_bytes()


def test_the_machine_can_have_what_a_process_then_gets() -> None:
    done = run("print(*(word.split(',')[0].split(':')[0] for word in confine(Confinement()).words.values()))")
    told = [words.split(",")[0].split(":")[0] for words in available().values()]
    assert done.stdout.split() == told, done.stderr


def test_a_process_with_threads_is_not_confined() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match=r"\d+ threads run"):
            confine(Confinement())
    finally:
        stop.set()
        thread.join()


def test_a_folder_to_write_is_made_for_its_owner_only(tmp_path: Path) -> None:
    done = run(
        "folder = Path(sys.argv[1]); confine(Confinement(write=(folder,))); (folder / 'a').write_text('b')",
        tmp_path / "deep" / "states",
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "deep" / "states" / "a").read_text() == "b"
    assert (tmp_path / "deep" / "states").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("confine(Confinement(write=(Path(sys.argv[1]),)))", tmp_path / "file" / "states")
    assert done.returncode == 0
    assert f"{tmp_path / 'file' / 'states'} cannot be made" in done.stderr


@pytest.mark.slow
def test_too_much_memory_is_an_error_and_too_much_time_the_end() -> None:
    code = """
confine(Confinement(address_bytes=1 << 30, cpu_seconds=1))
try:
    bytes(1 << 31)
except MemoryError:
    print("no memory", flush=True)
while True:
    pass
"""
    done = run(code)
    assert (done.stdout.strip(), done.returncode) in [
        ("no memory", -signal.SIGKILL),
        ("no memory", -signal.SIGXCPU),
    ], done.stderr


def test_too_large_a_file_is_an_error(tmp_path: Path) -> None:
    code = """
confine(Confinement(write=(Path(sys.argv[1]),), file_bytes=4096))
try:
    (Path(sys.argv[1]) / "a").write_bytes(bytes(8192))
except OSError as error:
    print(error.strerror)
"""
    assert run(code, tmp_path).stdout.strip() == os.strerror(errno.EFBIG)


def test_an_abort_still_ends_the_process_with_its_signal() -> None:
    """abort() signals the process itself, and the server reads the signal in the exit status."""
    assert run("confine(Confinement()); os.abort()").returncode == -signal.SIGABRT


SOCKETS = """
import errno, socket
there, other, own = map(int, sys.argv[2:])
ports = {"connect": (there,)} if sys.argv[1] == "connect" else {"listen": own}
done = confine(Confinement(**ports))

def attempt(call, *arguments):
    try:
        with call(*arguments):
            return "done"
    except OSError as error:
        return errno.errorcode[error.errno]

def connected(port):
    made = socket.socket()
    made.connect(("127.0.0.1", port))
    return made

def bound(port):
    made = socket.socket()
    made.bind(("127.0.0.1", port))
    made.listen()
    return made

bounded = "landlock" in done.on and int(done.on["landlock"].split()[-1]) >= 4
print(attempt(connected, there), attempt(connected, other))
print(attempt(bound, own), attempt(bound, 0), bounded, "seccomp" in done.on)
"""


@pytest.mark.parametrize("may", ["connect", "listen"])
def test_a_process_connects_to_the_named_port_or_listens_on_its_own_and_nothing_else(may: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as other:
        with socket.create_server(("127.0.0.1", 0)) as free:
            own = free.getsockname()[1]
        done = run(SOCKETS, may, there.getsockname()[1], other.getsockname()[1], own)
    connects, others, listens, elsewhere, bounded, filtered = done.stdout.split()
    refused = "EACCES" if bounded == "True" else "done"
    never = "EPERM" if filtered == "True" else refused
    assert (connects, others) == (("done", refused) if may == "connect" else (never, never)), done.stderr
    assert (listens, elsewhere) == (("done", refused) if may == "listen" else (never, never)), done.stderr
