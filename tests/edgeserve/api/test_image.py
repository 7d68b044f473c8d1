"""Dimensions of pictures, read from their first bytes."""

from __future__ import annotations

import base64
import struct
from io import BytesIO

import pytest
from PIL import Image

from edgeserve.api import image
from edgeserve.api.limits import Limits
from edgeserve.errors import InvalidRequest, TooLarge, UnsupportedMedia


def encoded(form: str, width: int = 7, height: int = 5) -> bytes:
    out = BytesIO()
    Image.new("RGB", (width, height), "red").save(out, form)
    return out.getvalue()


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP"])
def test_dimensions(form: str) -> None:
    assert image._dimensions(encoded(form)) == (7, 5)
    assert image.check_image(encoded(form), Limits()).data == encoded(form)


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_more_pixels_than_the_limit(form: str) -> None:
    with pytest.raises(TooLarge, match="7×5"):
        image.check_image(encoded(form), Limits(max_image_pixels=34))


def test_a_jpeg_may_have_fill_bytes_before_a_marker() -> None:
    plain = encoded("JPEG")
    assert image._dimensions(plain[:2] + b"\xff" * 9 + plain[2:]) == (7, 5)


def test_the_short_header_of_a_bmp() -> None:
    head = b"BM" + bytes(12) + struct.pack("<IHHHH", 12, 7, 5, 1, 24)
    assert image._dimensions(head + bytes(120)) == (7, 5)


APPLE = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 8, b"CgBI", 7, 5) + bytes(4) + encoded("PNG")[8:]
"""Dimensions of its own where those of the picture are expected; stb_image skips them."""


@pytest.mark.parametrize("data", [APPLE, b"\xff\xd8" + bytes(1 << 20), b"\xff\xd8" + b"\xff\xe0\0\2" * 100_000])
def test_a_head_that_leads_astray(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia, match="damaged"):
        image.check_image(data, Limits())


@pytest.mark.parametrize("data", [b"", b"words", encoded("JPEG")[:8], encoded("PNG")[:12], encoded("WEBP")])
def test_what_is_no_picture(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia):
        image.check_image(data, Limits())


def test_data_urls() -> None:
    png = encoded("PNG")
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    assert image.from_data_url(url, Limits(), "image_url").data == png
    with pytest.raises(InvalidRequest, match="not base64"):
        image.from_data_url("data:image/png;base64,???", Limits(), "image_url")
    with pytest.raises(InvalidRequest, match="expected data:image"):
        image.from_data_url("data:image/png,abc", Limits(), "image_url")
