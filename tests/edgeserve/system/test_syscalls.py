"""The numbers of system calls, against the headers of the C library where they are installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgeserve.system import syscalls

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
DEFINED = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)")


@pytest.mark.parametrize("machine", syscalls.ARCHITECTURES)
def test_the_numbers_are_those_of_the_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"no {HEADERS[machine]} here: linux-libc-dev is not installed")
    column = list(syscalls.ARCHITECTURES).index(machine)
    # An alias of an old name is defined later in the generic header.
    defined = dict(reversed(DEFINED.findall(HEADERS[machine].read_text(encoding="ascii"))))
    ours = {name: numbers[column] for name, numbers in syscalls.NUMBERS.items()}
    assert ours == {name: int(defined[name]) if name in defined else None for name in ours}
    assert defined.get("set_mempolicy_home_node") in (None, str(syscalls.NEWEST))


def test_no_number_is_newer_than_the_filter_knows_and_none_is_there_twice() -> None:
    for column in range(len(syscalls.ARCHITECTURES)):
        numbers = [both[column] for both in syscalls.NUMBERS.values() if both[column] is not None]
        assert len(set(numbers)) == len(numbers)
        assert max(number for number in numbers if number is not None) <= syscalls.NEWEST
