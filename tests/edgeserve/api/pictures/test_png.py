"""PNG files: every form passes, and none inflates to more than its header promises."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
import zlib
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.cases import each
from support.examples import examples

from edgeserve.api.limits import Limits
from edgeserve.api.pictures import png
from edgeserve.api.pictures.image import check_image
from edgeserve.errors import TooLarge, UnsupportedMedia

MB = 1 << 20
FORMS = [(colour, depth) for colour, depths in png.DEPTHS.items() for depth in depths]


def chunk(kind: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def header(width: int = 1, height: int = 1, depth: int = 8, colour: int = 2, interlaced: int = 0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))


def built(*chunks: bytes) -> bytes:
    return png.SIGNATURE + b"".join(chunks) + chunk(b"IEND")


def zeros(count: int) -> bytes:
    return zlib.compress(bytes(count), 9)


def bomb(megabytes: int) -> bytes:
    """Deflated zeros, made without inflating them: blocks that refer to nothing before them can be repeated."""
    packer = zlib.compressobj(9, wbits=-15)
    return b"\x78\xda" + megabytes * (packer.compress(bytes(MB)) + packer.flush(zlib.Z_FULL_FLUSH))


def seen(data: bytes) -> None:
    check_image(data, Limits())


@examples(60)
@given(
    st.sampled_from(["1", "L", "LA", "P", "RGB", "RGBA", "I;16"]),
    st.integers(1, 90),
    st.integers(1, 90),
    st.integers(0, 9),
    st.binary(max_size=300),
)
def test_files_of_encoders_pass(mode: str, width: int, height: int, level: int, text: bytes) -> None:
    out = BytesIO()
    picture = Image.linear_gradient("L").resize((width, height))
    picture = Image.new(mode, (width, height)) if mode == "I;16" else picture.convert(mode)
    picture.save(out, "PNG", compress_level=level, icc_profile=text or None)
    seen(out.getvalue())


@each(("colour", "depth"), FORMS)
def test_each_form_is_measured_exactly(colour: int, depth: int) -> None:
    for width, height in [(1, 1), (3, 5), (8, 8), (33, 17), (5, 1)]:
        for interlaced in (0, 1):
            measured_exactly(colour, depth, width, height, interlaced)


def measured_exactly(colour: int, depth: int, width: int, height: int, interlaced: int) -> None:
    """This test counts the interlaced sizes pixel by pixel."""
    bits = depth * png.CHANNELS[colour]
    steps = png.PASSES if interlaced else ((0, 0, 1, 1),)
    grids = [(len(range(x, width, across)), len(range(y, height, down))) for x, y, across, down in steps]
    size = sum(rows * (1 + (columns * bits + 7) // 8) for columns, rows in grids if columns)
    palette = chunk(b"PLTE", bytes(3)) if colour == 3 else b""
    head = header(width, height, depth, colour, interlaced) + palette
    seen(built(head, chunk(b"IDAT", zeros(size))))
    with pytest.raises(UnsupportedMedia, match="ends after"):
        seen(built(head, chunk(b"IDAT", zeros(size - 1))))
    with pytest.raises(UnsupportedMedia, match="more than"):
        seen(built(head, chunk(b"IDAT", zeros(size + png.SURPLUS + 1))))


@pytest.mark.slow
@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize(("colour", "depth"), [(2, 8), (6, 16), (0, 1), (3, 4)])
@pytest.mark.parametrize("pieces", [1, 1000])
def test_a_bomb_is_not_inflated(colour: int, depth: int, interlaced: int, pieces: int) -> None:
    """A megabyte that becomes one gigabyte behind the header of one pixel."""
    packed = bomb(1024)
    assert len(packed) < 1.1 * MB
    size = -(-len(packed) // pieces)
    parts = [chunk(b"IDAT", packed[at : at + size]) for at in range(0, len(packed), size)]
    palette = chunk(b"PLTE", bytes(3)) if colour == 3 else b""
    data = built(header(1, 1, depth, colour, interlaced), palette, *parts)
    tracemalloc.start()
    with pytest.raises(UnsupportedMedia, match="inflate to more than"):
        seen(data)
    assert tracemalloc.get_traced_memory()[1] < 4 * MB
    tracemalloc.stop()


@pytest.mark.parametrize("kind", [b"zTXt", b"iTXt", b"iCCP"])
def test_chunks_that_no_decoder_inflates_cost_nothing(kind: bytes) -> None:
    before = {b"zTXt": b"Comment\0\0", b"iTXt": b"Comment\0\1\0\0\0", b"iCCP": b"name\0\0"}[kind]
    data = built(header(), chunk(kind, before + bomb(256)), chunk(b"IDAT", zeros(4)))
    tracemalloc.start()
    seen(data)
    assert tracemalloc.get_traced_memory()[1] < 4 * MB
    tracemalloc.stop()


PIXEL = chunk(b"IDAT", zeros(4))
APPLE = chunk(b"CgBI", struct.pack(">II", 7, 5))
"""A chunk with other dimensions in the place of the header. stb_image skips such a chunk."""


@each(
    ("chunks", "why"),
    [
        ([APPLE, header(), PIXEL], "first chunk is no IHDR"),
        ([PIXEL, header()], "first chunk is no IHDR"),
        ([header(), header(9, 9), PIXEL], "two headers"),
        ([header(depth=3), PIXEL], "no form of PNG"),
        ([header(colour=1), PIXEL], "no form of PNG"),
        ([header(colour=3, depth=16), PIXEL], "no form of PNG"),
        ([header(interlaced=2), PIXEL], "no form of PNG"),
        ([header(0, 5), PIXEL], "has no pixels"),
        ([header(5, 0), PIXEL], "has no pixels"),
        ([header(colour=3), PIXEL], "no palette"),
        ([header(), chunk(b"ABCD"), PIXEL], "not known"),
        ([header()], "ends after 0 of 4"),
        ([header(), chunk(b"IDAT", b"words")], "cannot be inflated"),
        ([header(), chunk(b"IDAT", zeros(4)[:-6])], "ends after|inflated"),
        ([header(), struct.pack(">I", 0xFFFFFFFF) + b"IDAT", PIXEL], "cut off"),
        ([header(), *[chunk(b"tEXt")] * png.MAX_CHUNKS, PIXEL], "more than 65536 chunks"),
    ],
)
def test_damage_is_named(chunks: list[bytes], why: str) -> None:
    with pytest.raises(UnsupportedMedia, match=why):
        seen(built(*chunks))


@examples(200)
@given(st.data())
def test_no_change_of_a_file_is_unforeseen(data: st.DataObject) -> None:
    file = bytearray(built(header(9, 9, 4, 3, 1), chunk(b"PLTE", bytes(9)), chunk(b"IDAT", zeros(60)), chunk(b"tEXt")))
    for _ in range(data.draw(st.integers(1, 6))):
        file[data.draw(st.integers(8, len(file) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UnsupportedMedia, TooLarge):
        seen(bytes(file))
