"""The decoder of pictures gives the pixels that Pillow reads, and imports little."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO

import pytest
from PIL import Image
from support.cases import each

from edgeserve.engines.llama import pixels

DECODE = """
import json, sys
from edgeserve.engines.llama import pixels_loaded
from edgeserve.engines.llama.pixels import rgb
with rgb(sys.stdin.buffer.read()) as found:
    print(json.dumps([*found[:2], found[2].hex()]))
heavy = {"numpy", "jinja2", "diskcache", "av", "onnxruntime"}
print(json.dumps(sorted(heavy & set(sys.modules))))
"""


def picture() -> Image.Image:
    """Nine by six pixels, each with a colour of its own."""
    made = Image.new("RGB", (9, 6))
    made.putdata([(28 * (at % 9), 50 * (at // 9), 4 * at) for at in range(54)])
    return made


def file(form: str, mode: str = "RGB") -> bytes:
    out = BytesIO()
    picture().convert(mode).save(out, form)
    return out.getvalue()


@each(("form", "mode"), [("PNG", "RGB"), ("PNG", "L"), ("PNG", "RGBA"), ("BMP", "RGB"), ("GIF", "P")])
def test_pixels_are_those_of_the_file(form: str, mode: str) -> None:
    data = file(form, mode)
    with pixels.rgb(data) as found:
        assert found is not None
        width, height, rows = found
        assert (width, height) == (9, 6)
        assert bytes(rows) == Image.open(BytesIO(data)).convert("RGB").tobytes()


def test_a_jpeg_is_near() -> None:
    with pixels.rgb(file("JPEG")) as found:
        assert found is not None
        expected = Image.open(BytesIO(file("JPEG"))).convert("RGB").tobytes()
        assert max(abs(one - other) for one, other in zip(bytes(found[2]), expected, strict=True)) < 24


@pytest.mark.parametrize("make", [bytes, bytearray])
def test_pixels_become_a_picture_of_the_library(make: Callable[[bytes], bytes]) -> None:
    library, rows = pixels.load(), picture().tobytes()
    made = pixels.bitmap(library, (9, 6), memoryview(make(rows)))
    try:
        assert (library.mtmd_bitmap_get_nx(made), library.mtmd_bitmap_get_ny(made)) == (9, 6)
        assert ctypes.string_at(library.mtmd_bitmap_get_data(made), len(rows)) == rows
    finally:
        library.mtmd_bitmap_free(made)


@pytest.mark.parametrize("data", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + bytes(64), b"RIFF" + bytes(64)])
def test_other_data_are_no_picture(data: bytes) -> None:
    with pixels.rgb(data) as found:
        assert found is None


def test_a_child_decodes_without_the_package() -> None:
    done = subprocess.run([sys.executable, "-c", DECODE], input=file("PNG"), capture_output=True, check=True)
    found, heavy = map(json.loads, done.stdout.splitlines())
    assert found == [9, 6, picture().tobytes().hex()]
    assert heavy == []
