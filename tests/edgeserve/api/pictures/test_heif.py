"""HEIC photos: read, damaged, too large; refused with a way out where libheif is missing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.heic import PHOTO

from edgeserve.api.limits import Limits
from edgeserve.api.pictures import heif, image, still
from edgeserve.errors import TooLarge, UnsupportedMedia


def colours(size: int, width: int, data: bytes) -> tuple[bytes, bytes]:
    """The first and the last pixel of a row."""
    return data[:3], data[3 * width - 3 : 3 * width]


@pytest.mark.parametrize(("most", "times", "size"), [(6144, 0, (96, 64)), (6143, 1, (48, 32)), (2100, 2, (24, 16))])
def test_a_photo_is_decoded_and_made_smaller_where_it_is_too_large(
    most: int, times: int, size: tuple[int, int]
) -> None:
    limits = Limits(max_image_pixels=most)
    assert image.halvings(PHOTO, limits) == times
    assert image.check_image(PHOTO, limits) == size[0] * size[1]
    found = still.decoded(PHOTO, limits, "image")
    assert found
    assert found[:2] == size
    left, right = colours(*found)
    assert left[2] > 200 > 60 > left[0], "blue"
    assert right[0] > 200 > 60 > right[2], "red"


def test_a_photo_that_takes_too_much_memory_whole_is_refused() -> None:
    with pytest.raises(TooLarge, match="96×64"):
        image.check_image(PHOTO, Limits(max_image_pixels=1900))


def heif_pixels(data: bytes) -> object:
    """The pixels, as a reader asks for them."""
    image.check_image(data, Limits(), "image")
    return still.decoded(data, Limits(), "image")


@pytest.mark.parametrize("cut", [12, 40, 200, 400])
def test_a_photo_that_is_cut_off_is_damaged(cut: int) -> None:
    with pytest.raises(UnsupportedMedia, match="image is damaged or of a kind that is not read: "):
        heif_pixels(PHOTO[:cut])


def test_damage_among_the_pixels_passes_as_in_jpeg() -> None:
    """The decoder reads as far as it goes."""
    found = still.decoded(PHOTO[:-60] + bytes(60), Limits(), "image")
    assert found
    assert found[:2] == (96, 64)
    assert len(found[2]) == 3 * 96 * 64


def test_without_libheif_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heif, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None)))
    with pytest.raises(UnsupportedMedia, match="pip install pi-heif; or send it as JPEG"):
        image.check_image(PHOTO, Limits(), "image")


def test_a_film_is_of_no_form_that_is_read() -> None:
    with pytest.raises(UnsupportedMedia, match=r"neither PNG, .* nor AVIF \(it begins with b'.*ftypisom'\)"):
        image.check_image(b"\0\0\0\x18ftypisom" + bytes(12), Limits(), "image")
