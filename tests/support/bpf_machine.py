"""A machine for programs of classic BPF, as the kernel runs them on a system call."""

from __future__ import annotations

import struct

from edgeserve.system import bpf

WORD = 0xFFFFFFFF
ALLOWED = 0


def verdict(program: bytes, number: int, *arguments: int, architecture: int) -> int:
    """The errno that a call gets; 0: it is allowed. Fails on a program that does not end with a verdict."""
    padded = [one & (1 << 64) - 1 for one in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number & WORD, architecture, 0, *padded)
    instructions = list(struct.iter_unpack("<HBBI", program))
    place, held = 0, 0
    while True:
        code, on, off, constant = instructions[place]
        place += 1
        if code == bpf.LOAD:
            (held,) = struct.unpack_from("<I", data, constant)
        elif code == bpf.AND:
            held &= constant
        elif code == bpf.JUMP_EQUAL:
            place += on if held == constant else off
        elif code == bpf.JUMP_GREATER:
            place += on if held > constant else off
        elif code == bpf.RETURN:
            return _errno(constant)
        else:
            raise AssertionError(f"instruction {place - 1}: unknown code {code:#x}")


def _errno(value: int) -> int:
    if value == bpf.ALLOW:
        return ALLOWED
    assert value & ~0xFFFF == bpf.REFUSE, f"{value:#x} is neither an error nor an allowance"
    return value & 0xFFFF
