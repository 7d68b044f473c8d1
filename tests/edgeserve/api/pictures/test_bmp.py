from __future__ import annotations

import contextlib
import struct
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.cases import each
from support.examples import examples

from edgeserve.api.limits import Limits
from edgeserve.api.pictures.image import check_image
from edgeserve.errors import TooLarge, UnsupportedMedia


def written(mode: str = "RGB", size: tuple[int, int] = (7, 5)) -> bytes:
    out = BytesIO()
    Image.new(mode, size).save(out, "BMP")
    return out.getvalue()


def seen(data: bytes) -> None:
    check_image(data, Limits())


@examples(40)
@given(st.sampled_from(["1", "L", "P", "RGB", "RGBA"]), st.tuples(st.integers(1, 99), st.integers(1, 99)))
def test_files_of_encoders_pass_and_must_be_whole(mode: str, size: tuple[int, int]) -> None:
    data = written(mode, size)
    seen(data)
    with pytest.raises(UnsupportedMedia, match=r"ends after \d+ of \d+ bytes"):
        seen(data[:-4])


def test_the_short_header() -> None:
    head = b"BM" + bytes(12) + struct.pack("<IHHHH", 12, 7, 5, 1, 24)
    seen(head + bytes(120))
    with pytest.raises(UnsupportedMedia, match="ends after 100 of 120"):
        seen(head + bytes(100))


def patched(at: int, form: str, value: int) -> bytes:
    data = bytearray(written())
    struct.pack_into(form, data, at, value)
    return bytes(data)


@each(
    ("data", "why"),
    [
        (b"BM", "cut off"),
        (patched(14, "<I", 64), "header of 64 bytes"),
        (patched(14, "<I", 1 << 30), "cut off"),
        *[(patched(30, "<I", one), f"compression {one} is not read") for one in (1, 2, 4, 5, 99)],
        (patched(26, "<H", 2), "2 planes"),
        (patched(28, "<H", 5), "planes of 5 bits"),
        (patched(18, "<i", -7), "no pixels"),
        (patched(18, "<i", 0), "no pixels"),
        (patched(22, "<i", 0), "no pixels"),
        (patched(22, "<i", 1000), "ends after"),
        (patched(10, "<I", 1 << 31), "ends after 0 of"),
    ],
)
def test_damage_is_named(data: bytes, why: str) -> None:
    with pytest.raises(UnsupportedMedia, match=why):
        seen(data)


@examples(200)
@given(st.data())
def test_no_change_of_a_file_is_unforeseen(data: st.DataObject) -> None:
    file = bytearray(written())
    for _ in range(data.draw(st.integers(1, 6))):
        file[data.draw(st.integers(2, len(file) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UnsupportedMedia, TooLarge):
        seen(bytes(file)[: data.draw(st.integers(2, len(file)))])
