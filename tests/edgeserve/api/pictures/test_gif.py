from __future__ import annotations

import contextlib
import struct
import tracemalloc
from collections.abc import Iterable
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.cases import each
from support.examples import examples

from edgeserve.api.limits import Limits
from edgeserve.api.pictures import gif
from edgeserve.api.pictures.file import Damaged
from edgeserve.api.pictures.image import check_image
from edgeserve.errors import TooLarge, UnsupportedMedia


def written(size: tuple[int, int] = (40, 30), frames: int = 1, sigma: float = 60) -> bytes:
    out = BytesIO()
    first, *others = [Image.effect_noise(size, sigma) for _ in range(frames)]
    first.save(out, "GIF", save_all=frames > 1, append_images=others)
    return out.getvalue()


def seen(data: bytes) -> None:
    check_image(data, Limits())


def packed(codes: Iterable[tuple[int, int]]) -> bytes:
    """Codes and their widths, in bytes."""
    held = bits = 0
    out = bytearray()
    for code, width in codes:
        held |= code << bits
        bits += width
        while bits >= 8:
            out.append(held & 255)
            held, bits = held >> 8, bits - 8
    return bytes(out) + bytes([held])


def built(size: tuple[int, int], codes: bytes, smallest: int = 8, *, colours: bool = True) -> bytes:
    blocks = b"".join(bytes([len(codes[at : at + 255])]) + codes[at : at + 255] for at in range(0, len(codes), 255))
    screen = struct.pack("<HHBBB", *size, 0x80 if colours else 0, 0, 0) + (bytes(6) if colours else b"")
    place = struct.pack("<HHHHB", 0, 0, *size, 0)
    return b"GIF89a" + screen + b"\x2c" + place + bytes([smallest]) + blocks + b"\0\x3b"


def longest(rounds: int) -> bytes:
    """Codes that each stand for one pixel more than the code before, until the table is full and begins again."""
    one = [(256, 9), (0, 9)]
    known, width = 258, 9
    while known < 4095:
        one.append((known, width))
        known += 1
        width += known == 1 << width and width < 12
    one += [(4094, 12)] * 4000
    return packed(one * rounds)


@examples(30)
@given(st.tuples(st.integers(1, 150), st.integers(1, 150)), st.integers(1, 3), st.sampled_from([0, 5, 200]))
def test_files_of_encoders_pass(size: tuple[int, int], frames: int, sigma: float) -> None:
    seen(written(size, frames, sigma))


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_photograph_is_followed() -> None:
    seen(written((1000, 1000), sigma=200))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [(1, 1), (200, 300), (1000, 1000)])
def test_codes_that_stand_for_more_than_the_picture(size: tuple[int, int]) -> None:
    """The decoder follows each code to its first pixel, also when the picture has long been full."""
    with pytest.raises(UnsupportedMedia, match="stand for more than"):
        seen(built(size, longest(3)))


def test_codes_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gif, "MAX_CODES", 1000)
    with pytest.raises(UnsupportedMedia, match="more than 1000 codes"):
        seen(built((100, 100), packed([(256, 9)] * 2000)))
    seen(built((100, 100), packed([(256, 9)] * 900)))


@each(
    ("data", "why"),
    [
        (b"GIF89b" + bytes(60), "none of GIF87a and GIF89a"),
        (b"GIF89a\x07\0\x05\0" + bytes(60), "no picture"),
        (built((0, 5), b""), "no pixels"),
        (built((5, 0), b""), "no pixels"),
        (built((5, 5), b"", smallest=12), "begin with 12 bits"),
        (built((5, 5), b"", smallest=0), "begin with 0 bits"),
        (built((5, 5), b"", colours=False), "no colours"),
        (built((5, 5), packed([(256, 9), (300, 9)])), "no LZW"),
        (built((5, 5), packed([(256, 9), (258, 9)])), "no LZW"),
        (built((5, 5), b"")[:-2], "cut off"),
        (built((5, 5), b"").replace(struct.pack("<HHHH", 0, 0, 5, 5), struct.pack("<HHHH", 1, 0, 5, 5)), "within it"),
    ],
)
def test_damage_is_named(data: bytes, why: str) -> None:
    with pytest.raises(UnsupportedMedia, match=why):
        seen(data)


FILE = written((20, 20), frames=2)


@pytest.mark.slow
@examples(200)
@given(st.data())
def test_no_change_of_a_file_is_unforeseen(data: st.DataObject) -> None:
    file = bytearray(FILE)
    for _ in range(data.draw(st.integers(1, 6))):
        file[data.draw(st.integers(2, 1000))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UnsupportedMedia, TooLarge):
        seen(bytes(file)[: data.draw(st.integers(2, 1000))])


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("smallest", [1, 8, 11])
def test_codes_that_only_clear_the_table_cost_no_more_than_others(smallest: int) -> None:
    """A decoder that makes a new table for each code works on this file for minutes."""
    file = built((100, 100), packed([(1 << smallest, smallest + 1)] * 300_000), smallest)
    with contextlib.suppress(UnsupportedMedia):
        seen(file)


@pytest.mark.slow
def test_blocks_of_two_bytes_take_no_more_memory_than_the_file() -> None:
    data = built((40, 30), b"")[:-2] + b"\2\0\0" * 300_000 + b"\0\x3b"
    assert min(peak(data) for _ in range(3)) < 2 * len(data)


def peak(data: bytes) -> int:
    """Bytes at most while a damaged picture is checked; other threads of the tests may add theirs."""
    tracemalloc.start()
    try:
        with pytest.raises(Damaged):
            gif.check(data, gif.read_head(data))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
