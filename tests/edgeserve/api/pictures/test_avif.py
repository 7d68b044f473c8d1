"""AVIF pictures: read where Pillow has libavif, refused with a way out elsewhere."""

from __future__ import annotations

import functools
from io import BytesIO

import pytest
from PIL import Image, features

from edgeserve.api.limits import Limits
from edgeserve.api.pictures import avif, image, still
from edgeserve.errors import TooLarge, UnsupportedMedia

needs_libavif = pytest.mark.skipif(not features.check("avif"), reason="this Pillow was built without libavif")


@functools.cache
def photo(mode: str = "RGB", *, orientation: int = 1, frames: int = 1) -> bytes:
    """96 × 64 pixels, the left half blue, the right half red."""
    picture = Image.new(mode, (96, 64), "red")
    picture.paste("blue", (0, 0, 48, 64))
    exif = Image.Exif()
    exif[0x0112] = orientation
    more = [Image.new(mode, (96, 64), (number, 0, 0)) for number in range(1, frames)]
    picture.save(packed := BytesIO(), "AVIF", exif=exif, save_all=True, append_images=more)
    return packed.getvalue()


@needs_libavif
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize(("most", "times", "size"), [(16_896, 0, (96, 64)), (8400, 1, (48, 32))])
def test_a_picture_is_decoded_and_made_smaller_where_it_is_too_large(
    most: int, times: int, size: tuple[int, int], mode: str
) -> None:
    limits, data = Limits(max_image_pixels=most), photo(mode)
    assert image.halvings(data, limits) == times
    assert image.check_image(data, limits) == size[0] * size[1]
    found = still.decoded(data, limits, "image")
    assert found
    width, height, pixels = found
    assert (width, height, len(pixels)) == (*size, 3 * width * height)
    left, right = pixels[:3], pixels[3 * width - 3 : 3 * width]
    assert left[2] > 200 > 60 > left[0], "blue"
    assert right[0] > 200 > 60 > right[2], "red"


@needs_libavif
def test_a_picture_is_turned_as_its_file_asks_for() -> None:
    data = photo(orientation=6)
    assert image.check_image(data, Limits()) == 64 * 96
    found = still.decoded(data, Limits(), "image")
    assert found
    width, height, pixels = found
    assert (width, height) == (64, 96)
    assert pixels[2] > 200, "blue is at the top"
    assert pixels[-3] > 200, "red is at the bottom"


@needs_libavif
def test_a_picture_that_takes_too_much_memory_whole_is_refused() -> None:
    with pytest.raises(TooLarge, match="96×64"):
        image.check_image(photo(), Limits(max_image_pixels=6000))


@needs_libavif
def test_an_animation_is_refused() -> None:
    with pytest.raises(UnsupportedMedia, match="it is an animation; send one picture"):
        image.check_image(photo(frames=2), Limits())


@needs_libavif
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_a_picture_that_is_cut_off_is_damaged(share: float) -> None:
    data = photo()[: int(len(photo()) * share)]
    with pytest.raises(UnsupportedMedia, match="image is damaged or of a kind that is not read: "):
        still.decoded(data, Limits(), "image") if image.check_image(data, Limits(), "image") else None


def test_without_libavif_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avif, "_has_libavif", lambda: False)
    with pytest.raises(UnsupportedMedia, match="pip install --upgrade pillow; or send it as JPEG"):
        image.check_image(b"\0\0\0\x18ftypavif" + bytes(12), Limits(), "image")
