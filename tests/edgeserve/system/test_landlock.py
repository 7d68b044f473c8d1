"""Landlock's requests by ABI, on a kernel of our own; test_confinement.py asks the real one."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgeserve.system import landlock, libc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines processes")

ALL_OF_ABI_1 = 0x1FFF


class Kernel:
    """Records what it is asked, and answers as a kernel of this ABI."""

    def __init__(self, abi: int) -> None:
        self.abi = abi
        self.attributes = b""
        self.rules: dict[str, int] = {}
        self.restricted = False

    def __call__(self, number: int, *arguments: Any) -> int:
        if number == landlock.CREATE_RULESET and arguments[0] is None:
            return self.abi
        if number == landlock.CREATE_RULESET:
            self.attributes = arguments[0]
            return os.open("/", os.O_RDONLY)
        if number == landlock.ADD_RULE:
            rights, descriptor = struct.unpack("=Qi", arguments[2])
            self.rules[os.readlink(f"/proc/self/fd/{descriptor}")] = rights
        self.restricted |= number == landlock.RESTRICT_SELF
        return 0


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Kernel]:
    def of(abi: int) -> Kernel:
        made = Kernel(abi)
        monkeypatch.setattr(libc, "system_call", made)
        return made

    return of


@pytest.mark.parametrize(
    ("abi", "attributes"),
    [
        (1, (ALL_OF_ABI_1,)),
        (2, (ALL_OF_ABI_1 | landlock.REFER,)),
        (3, (ALL_OF_ABI_1 | landlock.REFER | landlock.TRUNCATE,)),
        (4, (ALL_OF_ABI_1 | landlock.REFER | landlock.TRUNCATE, 3)),
        (5, (0xFFFF, 3)),
        (6, (0xFFFF, 3, 3)),
        (9, (0xFFFF, 3, 3)),
    ],
)
def test_each_abi_is_asked_for_all_that_it_handles(
    abi: int, attributes: tuple[int, ...], kernel: Callable[[int], Kernel]
) -> None:
    asked = kernel(abi)
    assert landlock.restrict((), (), ()) == abi
    assert struct.unpack(f"={len(attributes)}Q", asked.attributes) == attributes
    assert asked.restricted


@pytest.mark.parametrize("abi", [1, 7])
def test_rules_name_only_rights_that_fit_the_path_and_the_abi(
    abi: int, kernel: Callable[[int], Kernel], tmp_path: Path
) -> None:
    asked = kernel(abi)
    file, states, pool = tmp_path / "model", tmp_path / "states" / "mine", tmp_path / "states"
    file.touch()
    states.mkdir(parents=True)
    landlock.restrict((file, tmp_path / "missing", file / "below"), (states,), (Path("/dev/null"),), (pool,))
    device = landlock.READ_FILE | landlock.WRITE_FILE | (landlock.IOCTL_DEV if abi >= 5 else 0)
    newer = landlock.REFER | landlock.TRUNCATE
    write = landlock.WRITE if abi >= 3 else landlock.WRITE & ~newer
    tidy = landlock.READ_DIR | landlock.REMOVE_FILE
    assert asked.rules == {str(file): landlock.READ_FILE, str(states): write, "/dev/null": device, str(pool): tidy}


def test_names_in_proc_stay_open_and_no_others(kernel: Callable[[int], Kernel], tmp_path: Path) -> None:
    """The kernel would forget the name when it needs memory, and then the rule would apply no more."""
    kernel(7)
    before, pinned = set(os.listdir("/proc/self/fd")), len(landlock._pinned)
    landlock.restrict((Path("/proc/self"), tmp_path), (), ())
    kept = landlock._pinned[pinned:]
    try:
        assert [os.readlink(f"/proc/self/fd/{one}") for one in kept] == [f"/proc/{os.getpid()}"]
        assert len(set(os.listdir("/proc/self/fd"))) == len(before) + 1
    finally:
        for one in kept:
            os.close(one)
        del landlock._pinned[pinned:]


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSYS, "5.13"), (errno.EOPNOTSUPP, "lsm="), (errno.EPERM, "containers"), (errno.E2BIG, "too long")],
)
def test_each_refusal_has_its_reason(number: int, words: str) -> None:
    assert words in landlock.reason(OSError(number, os.strerror(number)))
