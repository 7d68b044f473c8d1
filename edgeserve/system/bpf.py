"""Programs of classic BPF that judge system calls, put together from rules (seccomp(2), linux/bpf_common.h).

A program sees the architecture, the number and the six arguments of a call, and returns a verdict. It runs from top to
bottom, and a jump skips at most 255 instructions. Each rule therefore stands alone: the test of the number, the tests
of arguments, and its verdicts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from edgeserve.dataclass import dataclass

LOAD, JUMP_EQUAL, JUMP_GREATER, AND, RETURN = 0x20, 0x15, 0x25, 0x54, 0x06
"""Codes of the instructions: load 32 bits of the call's data, compare with a constant, keep bits, return a verdict."""
LOWER = 0xFFFFFFFF
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data. An argument has 8 bytes, the lower half first."""
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
"""SECCOMP_RET_ALLOW, and SECCOMP_RET_ERRNO, whose low bits are the error's number."""

Instruction = tuple[int, int, int, int]
"""Code, instructions to skip where the test holds and where it fails, constant."""


@dataclass(frozen=True, slots=True)
class Test:
    """A test of one argument: is its lower half, after ``mask``, one of ``values``? ``negative``: is it none of them?

    ``null`` instead asks whether all 64 bits are zero.
    """

    argument: int
    values: Sequence[int] = (0,)
    mask: int = LOWER
    negative: bool = False
    null: bool = False


def is_in(argument: int, *values: int, mask: int = LOWER) -> Test:
    """Only for arguments that the kernel itself reads as 32 bits."""
    return Test(argument, values, mask)


def is_not_in(argument: int, *values: int, mask: int = LOWER) -> Test:
    return Test(argument, values, mask, negative=True)


def is_null(argument: int) -> Test:
    return Test(argument, null=True)


@dataclass(frozen=True, slots=True)
class Rule:
    """The call ``number`` fails with ``error`` (an errno), unless there are tests and all of them hold."""

    number: int
    error: int
    tests: Sequence[Test] = ()


def assemble(architecture: int, newest: int, unknown: int, foreign: int, rules: Iterable[Rule]) -> bytes:
    """The program as the kernel takes it: an array of struct sock_filter.

    Arguments:
        architecture  AUDIT_ARCH_… of this machine; calls of another architecture fail with ``foreign``
        newest        the newest number of a call that the rules are written for; higher ones fail with ``unknown``
        rules         at most one for each number; calls without a rule are allowed
    """
    program: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, REFUSE | foreign),
        (LOAD, 0, 0, NUMBER),
        (JUMP_GREATER, 0, 1, newest),
        (RETURN, 0, 0, REFUSE | unknown),
    ]
    for rule in rules:
        body = _body(rule)
        program += [(JUMP_EQUAL, 0, len(body), rule.number), *body]
    program.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *one) for one in program)


def _body(rule: Rule) -> list[Instruction]:
    """Instructions for one call: its tests, the verdict where all hold, and the refusal."""
    refuse = (RETURN, 0, 0, REFUSE | rule.error)
    if not rule.tests:
        return [refuse]
    body: list[Instruction] = [(RETURN, 0, 0, ALLOW), refuse]
    for test in reversed(rule.tests):
        body = [*_test(test, len(body) - 1), *body]
    return body


def _test(test: Test, to_refusal: int) -> list[Instruction]:
    """``to_refusal``: instructions between the end of this test and the refusal."""
    lower = (LOAD, 0, 0, ARGUMENTS + 8 * test.argument)
    if test.null:
        upper = (LOAD, 0, 0, ARGUMENTS + 8 * test.argument + 4)
        return [lower, (JUMP_EQUAL, 0, to_refusal + 2, 0), upper, (JUMP_EQUAL, 0, to_refusal, 0)]
    found: list[Instruction] = [lower]
    if test.mask != LOWER:
        found.append((AND, 0, 0, test.mask))
    for left, value in zip(range(len(test.values) - 1, -1, -1), test.values, strict=True):
        equal = left + to_refusal if test.negative else left
        other = 0 if test.negative or left else to_refusal
        found.append((JUMP_EQUAL, equal, other, value))
    return found
