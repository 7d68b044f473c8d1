"""The verdicts of the filter, for both architectures; test_confinement.py asks the kernel itself."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from support.bpf_machine import ALLOWED, verdict

from edgeserve.system import seccomp, syscalls

PID, OTHER = 4321, 1234
AF_UNIX, AF_INET, STREAM, DATAGRAM, PACKETS, CLOEXEC = 1, 2, 1, 2, 5, 0o2000000
CLONE_THREAD_OF_GLIBC = 0x3D0F00
FORK_OF_GLIBC = 0x1200011
NEW_USER = 0x10000000
A_PATH = 0x7F00_0000_1000

JUDGED: list[tuple[str, tuple[int, ...], int]] = [
    ("clone", (CLONE_THREAD_OF_GLIBC,), ALLOWED),
    ("clone", (FORK_OF_GLIBC,), errno.EPERM),
    ("clone", (CLONE_THREAD_OF_GLIBC | NEW_USER,), errno.EPERM),
    ("clone3", (A_PATH,), errno.ENOSYS),
    ("io_uring_setup", (8, A_PATH), errno.ENOSYS),
    ("openat2", (0, A_PATH), errno.ENOSYS),
    ("execve", (A_PATH,), errno.EPERM),
    ("kill", (PID, 6), ALLOWED),
    ("kill", (OTHER, 0), errno.EPERM),
    ("kill", (0, 9), errno.EPERM),
    ("kill", (-1, 9), errno.EPERM),
    ("kill", (-PID, 9), errno.EPERM),
    ("tgkill", (PID, OTHER, 6), ALLOWED),
    ("tgkill", (OTHER, PID, 6), errno.EPERM),
    ("tkill", (PID, 6), errno.EPERM),
    ("prctl", (15, A_PATH), ALLOWED),
    ("prctl", (1, 0), errno.EPERM),
    ("ioctl", (0, 0x5401), ALLOWED),
    ("ioctl", (0, 0x5412), errno.EPERM),
    ("fcntl", (3, 2, 1), ALLOWED),
    ("fcntl", (3, 8, OTHER), errno.EPERM),
    ("openat", (-100, A_PATH, os.O_RDONLY), ALLOWED),
    ("openat", (-100, A_PATH, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), ALLOWED),
    ("openat", (-100, A_PATH, os.O_RDONLY | os.O_TRUNC), errno.EPERM),
    ("utimensat", (3, 0, A_PATH), ALLOWED),
    ("utimensat", (3, A_PATH, A_PATH), errno.EPERM),
    ("prlimit64", (0, 7, 0, A_PATH), ALLOWED),
    ("prlimit64", (PID, 7, 0, A_PATH), ALLOWED),
    ("prlimit64", (OTHER, 7, 0, A_PATH), errno.EPERM),
    ("prlimit64", (0, 7, A_PATH, 0), errno.EPERM),
    ("setpriority", (0, 0, 19), ALLOWED),
    ("setpriority", (0, OTHER, 19), errno.EPERM),
    ("setpriority", (1, 0, 19), errno.EPERM),
    ("sched_setaffinity", (0, 8, A_PATH), ALLOWED),
    ("sched_setaffinity", (OTHER, 8, A_PATH), errno.EPERM),
    ("socket", (AF_UNIX, STREAM), errno.EPERM),
    ("socketpair", (AF_UNIX, STREAM), errno.EPERM),
]
WITH_ACCELERATOR: list[tuple[str, tuple[int, ...], int]] = [
    ("socket", (AF_UNIX, PACKETS | CLOEXEC), ALLOWED),
    ("socket", (AF_UNIX, STREAM), ALLOWED),
    ("socket", (AF_UNIX, DATAGRAM | CLOEXEC), errno.EPERM),
    ("socket", (AF_INET, STREAM), errno.EPERM),
    ("socketpair", (AF_UNIX, DATAGRAM), errno.EPERM),
    ("bind", (3, A_PATH), ALLOWED),
    ("connect", (3, A_PATH), errno.EPERM),
    ("execve", (A_PATH,), errno.EPERM),
]


CONNECTING: list[tuple[str, tuple[int, ...], int]] = [
    ("socket", (AF_INET, STREAM), ALLOWED),
    ("socket", (AF_INET, DATAGRAM), errno.EPERM),
    ("socket", (AF_UNIX, STREAM), errno.EPERM),
    ("connect", (3, A_PATH), ALLOWED),
    ("bind", (3, A_PATH), errno.EPERM),
    ("listen", (3, 1), errno.EPERM),
    ("execve", (A_PATH,), errno.EPERM),
]
LISTENING: list[tuple[str, tuple[int, ...], int]] = [
    ("socket", (AF_INET, STREAM | CLOEXEC), ALLOWED),
    ("socket", (AF_INET, DATAGRAM), errno.EPERM),
    ("bind", (3, A_PATH), ALLOWED),
    ("listen", (3, 1), ALLOWED),
    ("accept", (3,), ALLOWED),
    ("connect", (3, A_PATH), errno.EPERM),
    ("execve", (A_PATH,), errno.EPERM),
]


def judge(machine: str, name: str, arguments: tuple[int, ...], allowed: Mapping[str, Any]) -> int | None:
    """The verdict on a call; None where the architecture lacks the call."""
    number = syscalls.NUMBERS[name][list(syscalls.ARCHITECTURES).index(machine)]
    if number is None:
        return None
    program = seccomp.program(machine, PID, allowed)
    return verdict(program, number, *arguments, architecture=syscalls.ARCHITECTURES[machine])


@pytest.mark.parametrize("machine", syscalls.ARCHITECTURES)
@pytest.mark.parametrize("accelerator", [False, True])
def test_the_verdict_on_each_call(machine: str, accelerator: bool) -> None:
    driver = {name for name, _, _ in WITH_ACCELERATOR}
    cases = [case for case in JUDGED if not accelerator or case[0] not in driver]
    cases += WITH_ACCELERATOR if accelerator else []
    allowed = seccomp.DRIVER if accelerator else seccomp.NOBODY
    found = [(name, arguments, judge(machine, name, arguments, allowed)) for name, arguments, _ in cases]
    assert found == cases


@pytest.mark.parametrize("machine", syscalls.ARCHITECTURES)
@pytest.mark.parametrize(("allowed", "cases"), [(seccomp.CLIENT, CONNECTING), (seccomp.LISTENER, LISTENING)])
def test_a_process_that_connects_does_not_listen_and_the_other_way_round(
    machine: str, allowed: Mapping[str, Any], cases: list[tuple[str, tuple[int, ...], int]]
) -> None:
    number = list(syscalls.ARCHITECTURES).index(machine)
    there = [case for case in cases if syscalls.NUMBERS[case[0]][number] is not None]
    assert [(name, given, judge(machine, name, given, allowed)) for name, given, _ in there] == there


@pytest.mark.parametrize("machine", syscalls.ARCHITECTURES)
def test_every_call_of_the_table_is_refused_or_bounded(machine: str) -> None:
    """All arguments are numbers that no worker has reason to pass: each named call fails at least then."""
    strange = (0x30003, 0x5412, os.O_TRUNC, 0x30003, 0x30003, 0x30003)
    bounded_otherwise = {"prctl": (1,), "fcntl": (0, 8), "open": (A_PATH, os.O_TRUNC)}
    passed = [
        name
        for name in syscalls.NUMBERS
        if judge(machine, name, bounded_otherwise.get(name, strange), seccomp.NOBODY) == ALLOWED
    ]
    assert passed == []
    assert set(seccomp.judged(PID)) == set(syscalls.NUMBERS)


def test_the_filter_fits_the_kernel_and_the_jumps() -> None:
    """A program has at most 4,096 instructions (BPF_MAXINSNS) of 8 bytes."""
    for machine in syscalls.ARCHITECTURES:
        assert len(seccomp.program(machine, PID)) / 8 < 4096


@pytest.mark.parametrize(("name", "bits"), [("armv7l", 1 << 31), ("aarch64", 1 << 31), ("riscv64", 1 << 63)])
def test_a_machine_without_a_table_has_no_filter(name: str, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine=name))
    monkeypatch.setattr("sys.maxsize", bits - 1)
    with pytest.raises(OSError, match=name) as caught:
        seccomp.check()
    assert "there is one for x86_64, aarch64" in seccomp.reason(caught.value)
