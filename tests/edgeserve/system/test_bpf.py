"""Programs assembled from rules, run on a machine for BPF."""

from __future__ import annotations

import errno

import pytest
from support.bpf_machine import ALLOWED, verdict
from support.cases import each

from edgeserve.system.bpf import Rule, assemble, is_in, is_not_in, is_null

HERE, ELSEWHERE, NEWEST = 0xC000003E, 0x40000003, 100
RULES = (
    Rule(1, errno.EPERM),
    Rule(2, errno.EPERM, (is_in(0, 5, 6, 7),)),
    Rule(3, errno.EPERM, (is_not_in(1, 5, 6, 7),)),
    Rule(4, errno.EPERM, (is_in(0, 0x10, mask=0x10), is_in(0, 0, mask=0xF000), is_null(5))),
    Rule(5, errno.EACCES, (is_null(1),)),
    Rule(6, errno.EPERM, (is_in(3, 0xFFFFFFFF),)),
)
PROGRAM = assemble(HERE, NEWEST, unknown=errno.ENOSYS, foreign=errno.EPERM, rules=RULES)
HIGH = 1 << 32


@each(
    ("number", "arguments", "error"),
    [
        (0, (), ALLOWED),
        (1, (), errno.EPERM),
        (1, (5, 5, 5, 5, 5, 5), errno.EPERM),
        (2, (4,), errno.EPERM),
        (2, (5,), ALLOWED),
        (2, (6,), ALLOWED),
        (2, (7,), ALLOWED),
        (2, (8,), errno.EPERM),
        (2, (HIGH + 5,), ALLOWED),
        (3, (5, 4), ALLOWED),
        (3, (0, 5), errno.EPERM),
        (3, (0, 6), errno.EPERM),
        (3, (0, 7), errno.EPERM),
        (3, (0, 8), ALLOWED),
        (4, (0x10,), ALLOWED),
        (4, (0x1F,), ALLOWED),
        (4, (0x0F,), errno.EPERM),
        (4, (0x1010,), errno.EPERM),
        (4, (0x10, 0, 0, 0, 0, 1), errno.EPERM),
        (4, (0x10, 0, 0, 0, 0, HIGH), errno.EPERM),
        (5, (9, 0), ALLOWED),
        (5, (9, 1), errno.EACCES),
        (5, (9, HIGH), errno.EACCES),
        (6, (0, 0, 0, -1), ALLOWED),
        (6, (0, 0, 0, 1), errno.EPERM),
        (NEWEST, (), ALLOWED),
        (NEWEST + 1, (), errno.ENOSYS),
        (0x40000001, (), errno.ENOSYS),
        (0xFFFFFFFF, (), errno.ENOSYS),
    ],
)
def test_each_rule_judges_its_own_call(number: int, arguments: tuple[int, ...], error: int) -> None:
    assert verdict(PROGRAM, number, *arguments, architecture=HERE) == error


@pytest.mark.parametrize("number", [0, 1, 2, NEWEST + 1])
def test_calls_of_another_architecture_fail(number: int) -> None:
    assert verdict(PROGRAM, number, architecture=ELSEWHERE) == errno.EPERM
