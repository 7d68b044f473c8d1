"""Dimensions of pictures, read from their first bytes."""

from __future__ import annotations

import base64
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


@pytest.mark.parametrize("data", [b"", b"words", encoded("JPEG")[:8], encoded("PNG")[:12], encoded("WEBP")])
def test_what_is_no_picture(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia):
        image.check_image(data, Limits())


def test_data_urls() -> None:
    png = encoded("PNG")
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    assert image.from_url(url, Limits(), "image_url").data == png
    with pytest.raises(InvalidRequest, match="not base64"):
        image.from_url("data:image/png;base64,???", Limits(), "image_url")
    with pytest.raises(InvalidRequest, match="expected data:image"):
        image.from_url("data:image/png,abc", Limits(), "image_url")
