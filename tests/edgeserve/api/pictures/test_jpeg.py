"""JPEG files: files of encoders pass; scans, frames and segments are counted."""

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
from edgeserve.api.pictures import jpeg
from edgeserve.api.pictures.image import check_image
from edgeserve.errors import TooLarge, UnsupportedMedia


def written(mode: str = "RGB", size: tuple[int, int] = (40, 30), **options: object) -> bytes:
    out = BytesIO()
    Image.linear_gradient("L").resize(size).convert(mode).save(out, "JPEG", **options)
    return out.getvalue()


def seen(data: bytes) -> None:
    check_image(data, Limits())


PROGRESSIVE = written(progressive=True)
AC_SCAN = b"\xff\xda\0\x08\x01\x01\0\x01\x3f\0"
"""A header without a scan's data: a pass over the first component all the same."""


@examples(60)
@given(
    st.sampled_from(["L", "RGB", "CMYK"]),
    st.tuples(st.integers(1, 99), st.integers(1, 99)),
    st.booleans(),
    st.integers(1, 100),
    st.sampled_from([0, 1, 2]),
    st.binary(max_size=100_000),
)
def test_files_of_encoders_pass(
    mode: str, size: tuple[int, int], progressive: bool, quality: int, subsampling: int, profile: bytes
) -> None:
    options: dict[str, object] = {"progressive": progressive, "quality": quality, "icc_profile": profile or None}
    seen(written(mode, size, subsampling=subsampling, **options))
    seen(written(mode, size, subsampling=subsampling, restart_marker_rows=1, comment=b"\xff\xda" * 9, **options))


def test_a_file_may_have_fill_bytes_before_a_marker() -> None:
    plain = written()
    seen(plain[:2] + b"\xff" * 9 + plain[2:])


@each("count", [91, 1000, 60_000])
@each("between", [b"", b"\xff\xfe\0\x02", b"\xff\0\xff\xd3" * 20, b"\xff" * 5])
def test_scans_are_counted(count: int, between: bytes) -> None:
    with pytest.raises(UnsupportedMedia, match="more than 100 scans"):
        seen(PROGRESSIVE[:-2] + (between + AC_SCAN) * count + b"\xff\xd9")


def test_scans_of_encoders_are_few() -> None:
    assert PROGRESSIVE.count(b"\xff\xda") == 10
    seen(PROGRESSIVE[:-2] + AC_SCAN * 90 + b"\xff\xd9")


def test_a_scan_on_the_border_of_two_windows_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for window in range(1, 40):
        monkeypatch.setattr(jpeg, "WINDOW", window)
        assert sum(marker == jpeg.SCAN for marker, _ in jpeg._segments(PROGRESSIVE)) == 10


def frame(data: bytes, **changes: int) -> bytes:
    """The file with other values in its frame header."""
    at = data.index(b"\xff\xc0")
    length, depth, height, width, count = struct.unpack_from(">HBHHB", data, at + 2)
    values = {"marker": 0xC0, "length": length, "depth": depth, "height": height, "width": width, "count": count}
    values |= changes
    return data[: at + 1] + struct.pack(">BHBHHB", *values.values()) + data[at + 10 :]


@each(
    ("data", "why"),
    [
        *[
            (frame(written(), marker=one), "only baseline and progressive")
            for one in sorted(jpeg.FRAMES - jpeg.READ.keys())
        ],
        (frame(written(), marker=0xC1, depth=12), "3 components of 12 bits"),
        (frame(written(), depth=16), "3 components of 16 bits"),
        (frame(written(), count=2), "2 components"),
        (frame(written(), length=99), "components"),
        (frame(written(), width=0), "no pixels"),
        (frame(written(), height=0), "no pixels"),
        (b"\xff\xd8" + bytes(1 << 20), "lead nowhere"),
        (b"\xff\xd8" + b"\xff\xe0\0\2" * 100_000, "more than 4096 segments"),
        (b"\xff\xd8\xff\xd9", "cut off|no frame|lead nowhere"),
        (written()[:2] + written()[written().index(b"\xff\xda") :], "no frame"),
        (written()[: written().index(b"\xff\xda")] + b"\xff\xd9", "no scan|lead nowhere"),
        (written()[:-2] + written()[2:], "two frames"),
        (written()[:-2] + b"\xff\xc4\0\2" * 5000, "more than 4096 segments"),
    ],
)
def test_damage_and_what_no_decoder_reads_is_named(data: bytes, why: str) -> None:
    with pytest.raises(UnsupportedMedia, match=why):
        seen(data)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("filling", [b"\0", b"\xff", b"\xff\0", b"\xff\xd0", b"\xff\xff\0"])
def test_a_long_scan_is_searched_to_its_end(filling: bytes) -> None:
    whole = written()
    seen(whole[:-2] + filling * ((16 << 20) // len(filling)) + b"\xff\xd9")


@pytest.mark.slow
@examples(200)
@given(st.data())
def test_no_change_of_a_file_is_unforeseen(data: st.DataObject) -> None:
    file = bytearray(data.draw(st.sampled_from([PROGRESSIVE, written(), written("CMYK")])))
    for _ in range(data.draw(st.integers(1, 8))):
        file[data.draw(st.integers(2, min(700, len(file) - 1)))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UnsupportedMedia, TooLarge):
        seen(bytes(file)[: data.draw(st.integers(2, len(file)))])
