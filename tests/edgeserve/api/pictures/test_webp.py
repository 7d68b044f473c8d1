"""WebP pictures: what is read, and what is refused before anything decodes it."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import pytest
from PIL import Image
from support.cases import each

from edgeserve.api.limits import Limits
from edgeserve.api.pictures import webp
from edgeserve.api.pictures.file import Damaged
from edgeserve.api.pictures.image import check_image
from edgeserve.api.pictures.reader import PictureFilesHere
from edgeserve.errors import TooLarge, UnsupportedMedia
from edgeserve.media.leash import Leash


def made(mode: str = "RGB", width: int = 31, height: int = 20, **settings: Any) -> bytes:
    out = BytesIO()
    Image.radial_gradient("L").resize((width, height)).convert(mode).save(out, "WEBP", **settings)
    return out.getvalue()


def extended() -> bytes:
    """A lossy picture with alpha, which needs a canvas."""
    picture = Image.merge("RGBA", [Image.linear_gradient("L").resize((31, 20))] * 4)
    out = BytesIO()
    picture.save(out, "WEBP")
    return out.getvalue()


def chunk(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def file(*chunks: bytes) -> bytes:
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("settings", [{}, {"lossless": True}, {"lossless": True, "mode": "RGBA"}])
def test_the_pixels_are_those_of_the_file(settings: dict[str, Any]) -> None:
    data = made(**settings)
    picture = PictureFilesHere().read(data, Limits(), "image", Leash())
    assert (picture.size, picture.pixels) == ((31, 20), 620)
    expected = Image.open(BytesIO(data)).convert("RGB").tobytes()
    assert max(abs(ours - theirs) for ours, theirs in zip(bytes(picture.data), expected, strict=True)) <= 2


def test_a_picture_with_a_canvas_is_read() -> None:
    data = extended()
    assert webp.EXTENDED in data
    assert check_image(data, Limits()) == 620


LOSSLESS = b"\x2f" + struct.pack("<I", (9 << 14) | 9)
"""A lossless picture of ten by ten pixels begins so."""


@each(
    ("data", "told"),
    [
        (b"RIFF\x04\0\0\0WAVE", "its RIFF file is no WebP"),
        (b"RIFF", "its RIFF file is no WebP"),
        (file(), "it has no picture"),
        (file(chunk(b"ANIM", b"\0" * 6), chunk(webp.LOSSLESS, LOSSLESS)), "it is an animation"),
        (file(chunk(webp.LOSSLESS, b"x" + LOSSLESS[1:])), "does not begin with its mark"),
        (file(chunk(webp.LOSSLESS, b"\x2f")), "does not begin with its mark"),
        (file(chunk(webp.LOSSY, b"\1" * 10)), "does not begin with a key frame"),
        (file(chunk(webp.EXTENDED, b"\0" * 10), chunk(webp.LOSSLESS, LOSSLESS)), "other dimensions than its canvas"),
        (file(chunk(webp.LOSSLESS, LOSSLESS))[:-3], "it is cut off"),
        (file(chunk(webp.LOSSLESS, LOSSLESS)) + b"abc", "it is cut off"),
        (file(*[chunk(b"EXIF", b"")] * 2000), "it has more than 1024 chunks"),
    ],
)
def test_damaged_files_are_refused(data: bytes, told: str) -> None:
    with pytest.raises(Damaged, match=told):
        webp.read_head(data)


def test_a_kind_that_takes_more_memory_is_made_smaller_earlier() -> None:
    assert check_image(made(), Limits(max_image_pixels=620)) == 620
    for data in (made(lossless=True), extended()):
        assert check_image(data, Limits(max_image_pixels=620)) == 16 * 10


@each(
    ("settings", "most", "size"),
    [
        ({}, 767, (16, 12)),
        ({}, 140, (8, 6)),
        ({}, 120, (4, 3)),
        ({"lossless": True}, 767, (16, 12)),
        ({"lossless": True, "mode": "RGBA"}, 767, (16, 12)),
    ],
)
def test_a_large_picture_is_made_smaller(settings: dict[str, Any], most: int, size: tuple[int, int]) -> None:
    data, limits = made(width=32, height=24, **settings), Limits(max_image_pixels=most)
    picture = PictureFilesHere().read(data, limits, "image", Leash())
    assert (picture.size, picture.pixels) == (size, size[0] * size[1])
    wanted = Image.open(BytesIO(data)).convert("RGB").reduce(32 // size[0]).tobytes()
    assert max(abs(one - other) for one, other in zip(bytes(picture.data), wanted, strict=True)) <= 4


def test_the_limit_is_that_of_the_memory_that_decoding_takes() -> None:
    """Bytes of the decoder's frame, which no smaller result saves."""
    for data, most in ((made(), 93), (made(lossless=True), 270), (extended(), 315)):
        assert check_image(data, Limits(max_image_pixels=most + 1)) == 4 * 3
        with pytest.raises(TooLarge, match="of its kind is 0 million"):
            check_image(data, Limits(max_image_pixels=most))


def test_a_picture_that_ffmpeg_refuses_is_damaged() -> None:
    data = bytearray(made(width=300, height=200))
    data[60:] = bytes(len(data) - 60)
    broken = file(chunk(webp.LOSSLESS, LOSSLESS + b"\xff" * 40))
    for one in (broken, bytes(data[:20]) + b"\0" * 40):
        with pytest.raises(UnsupportedMedia, match="damaged"):
            PictureFilesHere().read(one, Limits(), "image", Leash())


@pytest.mark.parametrize("first", [{}, {"lossless": True}])
@pytest.mark.parametrize("last", [{}, {"lossless": True}])
def test_a_second_picture_is_refused(first: dict[str, Any], last: dict[str, Any]) -> None:
    """FFmpeg decodes the first: the dimensions that were checked would be those of another."""
    large, small = made(width=600, height=400, **first)[12:], made(**last)[12:]
    assert check_image(file(small), Limits()) == 620
    with pytest.raises(UnsupportedMedia, match="more than one picture"):
        check_image(file(large, small), Limits())
