"""Bytes that are almost what they were."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

MOST = 1 << 20
"""Bytes of a result."""
HEAD = 256
"""Bytes at the begin of a file that half of all changes hit: there lie the lengths and kinds of everything else."""
NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 1 << 24, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
WIDE = (*NUMBERS, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
Words = Sequence[bytes]
Way = Callable[[bytearray, random.Random, Words], None]


def mutated(data: bytes, dice: random.Random, words: Words = ()) -> bytes:
    """``data`` after one to sixteen changes. ``words``: bytes that mean something in this format."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 2, 4, 8, 16))):
        dice.choice(WAYS)(changed, dice, words)
    return bytes(changed[:MOST])


def _place(data: bytearray, dice: random.Random) -> int:
    most = min(len(data), HEAD) if dice.random() < 0.5 else len(data)
    return dice.randrange(most + 1)


def _span(data: bytearray, dice: random.Random) -> slice:
    start = _place(data, dice)
    return slice(start, start + dice.choice((1, 2, 4, 8, 16, 64, 256, 4096)))


def _flip(data: bytearray, dice: random.Random, words: Words) -> None:
    if data:
        data[min(_place(data, dice), len(data) - 1)] ^= 1 << dice.randrange(8)


def _number(data: bytearray, dice: random.Random, words: Words) -> None:
    """Write a number at a border, of one to eight bytes."""
    size = dice.choice((1, 2, 4, 8))
    number = dice.choice(WIDE) & ((1 << 8 * size) - 1)
    start = _place(data, dice)
    data[start : start + size] = number.to_bytes(size, dice.choice(("little", "big")))


def _noise(data: bytearray, dice: random.Random, words: Words) -> None:
    span = _span(data, dice)
    data[span] = dice.randbytes(len(data[span]))


def _insert(data: bytearray, dice: random.Random, words: Words) -> None:
    start = _place(data, dice)
    data[start:start] = dice.randbytes(dice.choice((1, 2, 4, 16, 64)))


def _word(data: bytearray, dice: random.Random, words: Words) -> None:
    if words:
        word = dice.choice(words)
        start = _place(data, dice)
        data[start : start + dice.choice((0, len(word)))] = word


def _cut(data: bytearray, dice: random.Random, words: Words) -> None:
    del data[_span(data, dice)]


def _end(data: bytearray, dice: random.Random, words: Words) -> None:
    del data[_place(data, dice) :]


def _repeat(data: bytearray, dice: random.Random, words: Words) -> None:
    span = _span(data, dice)
    times = dice.choice((1, 2, 8, 64))
    if len(data) < MOST:
        data[span.start : span.start] = bytes(data[span]) * times


def _move(data: bytearray, dice: random.Random, words: Words) -> None:
    span = _span(data, dice)
    part = bytes(data[span])
    del data[span]
    start = _place(data, dice)
    data[start:start] = part


def _zero(data: bytearray, dice: random.Random, words: Words) -> None:
    span = _span(data, dice)
    data[span] = bytes(len(data[span]))


WAYS: Sequence[Way] = (_flip, _flip, _number, _number, _noise, _insert, _word, _word, _cut, _end, _repeat, _move, _zero)
