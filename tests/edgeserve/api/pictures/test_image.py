"""Pictures that are refused before a decoder sees them."""

from __future__ import annotations

import struct
from io import BytesIO
from types import ModuleType

import pytest
from PIL import Image
from support.cases import each

from edgeserve.api.limits import Limits
from edgeserve.api.pictures import bmp, gif, image, jpeg, png, still
from edgeserve.errors import TooLarge, UnsupportedMedia

FORMS: list[tuple[str, ModuleType]] = [("PNG", png), ("JPEG", jpeg), ("GIF", gif), ("BMP", bmp)]


def encoded(form: str, width: int = 7, height: int = 5) -> bytes:
    out = BytesIO()
    Image.new("RGB", (width, height), "red").save(out, form)
    return out.getvalue()


@pytest.mark.parametrize(("form", "module"), FORMS)
def test_dimensions(form: str, module: ModuleType) -> None:
    assert module.read_head(encoded(form))[:2] == (7, 5)
    assert image.check_image(encoded(form), Limits(), "messages[0]") == 35


@pytest.mark.parametrize("form", ["PNG", "GIF", "BMP"])
def test_more_pixels_than_the_limit(form: str) -> None:
    with pytest.raises(TooLarge, match="7×5"):
        image.check_image(encoded(form), Limits(max_image_pixels=34))


@each("form", ["PNG", "JPEG", "GIF", "BMP"])
@each(("width", "height"), [(201, 1), (1, 201), (60_000, 3), (7, 1401)])
def test_a_picture_too_narrow(form: str, width: int, height: int) -> None:
    with pytest.raises(UnsupportedMedia, match="200 times its shorter one"):
        image.check_image(encoded(form, width, height), Limits())


def test_forms_that_take_more_memory_may_have_fewer_pixels() -> None:
    deep = png_of(40, 40, depth=16, colour=6)
    assert image.check_image(deep, Limits(max_image_pixels=4000)) == 1600
    with pytest.raises(TooLarge, match="the limit of its kind"):
        image.check_image(deep, Limits(max_image_pixels=1600))


@each(
    ("most", "times", "pixels"), [(999, 0, 999), (998, 1, 266), (266, 1, 266), (265, 2, 70), (70, 2, 70), (20, 3, 20)]
)
def test_a_photo_with_too_many_pixels_is_decoded_smaller(most: int, times: int, pixels: int) -> None:
    photo, limits = encoded("JPEG", 37, 27), Limits(max_image_pixels=most)
    assert image.check_image(photo, limits) == pixels
    assert image.halvings(photo, limits) == times
    width, height, data = still.rgb("mjpeg", photo, "image", times)
    assert width * height == pixels
    assert len(data) == 3 * pixels
    assert min(data[::3]) > 240, "it is red"
    assert max(data[1::3]) < 16


def test_a_photo_that_is_too_large_at_an_eighth_is_refused() -> None:
    with pytest.raises(TooLarge, match="37×27, 0 million pixels; the limit of its kind"):
        image.check_image(encoded("JPEG", 37, 27), Limits(max_image_pixels=19))


def test_the_coefficients_of_a_progressive_photo_count_at_any_size() -> None:
    out = BytesIO()
    Image.new("RGB", (40, 40)).save(out, "JPEG", progressive=True, subsampling=0)
    photo = out.getvalue()
    assert [image.halvings(photo, Limits(max_image_pixels=most)) for most in (4000, 2400, 2399, 858, 856)] == [
        0,
        0,
        1,
        1,
        2,
    ]
    with pytest.raises(TooLarge, match="the limit of its kind"):
        image.check_image(photo, Limits(max_image_pixels=690))


def test_the_dimensions_of_the_largest_photo_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "MAX_REDUCED", 998)
    with pytest.raises(TooLarge):
        image.check_image(encoded("JPEG", 37, 27), Limits(max_image_pixels=998))


def png_of(width: int, height: int, depth: int, colour: int) -> bytes:
    import zlib

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    row = 1 + width * depth * png.CHANNELS[colour] // 8
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return (
        png.SIGNATURE
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(row * height)))
        + chunk(b"IEND", b"")
    )


@each("data", [b"", b"words", b"RIFF", b"\xff\xff\xd8", b"\x89PN", b"II*\0" + bytes(99)])
def test_other_data_are_no_picture(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia):
        image.check_image(data, Limits())


@pytest.mark.parametrize("form", ["PNG", "GIF", "BMP", "JPEG"])
def test_a_picture_cut_anywhere_is_refused_or_whole_enough(form: str) -> None:
    """A decoder reads a JPEG that is cut among its pixels as far as it goes, so the check asks only for the head."""
    whole = encoded(form, 30, 20)
    scan = whole.index(b"\xff\xda") if form == "JPEG" else len(whole) - 4
    for length in range(scan):
        with pytest.raises(UnsupportedMedia):
            image.check_image(whole[:length], Limits())
