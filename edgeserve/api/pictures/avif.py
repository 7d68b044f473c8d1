"""AVIF files (AOMedia, AV1 Image File Format). Pillow's libavif reads them."""

from __future__ import annotations

import importlib.util
from io import BytesIO
from typing import Any

from edgeserve.api.pictures.file import FAILURES, Damaged, Head
from edgeserve.errors import UnsupportedMedia

BRANDS = (b"avif", b"avis")
PLANES, MEMORY = 18.0, 22.0
"""Bytes a pixel: four planes in 16 bits with two copies in RGBA, and these with Pillow's own copy of the result. In 8
bits, 14 were measured."""


def matches(data: bytes) -> bool:
    """Whether a file begins as one of AVIF."""
    return data[4:8] == b"ftyp" and data[8:12] in BRANDS


def read_head(data: bytes) -> Head:
    """Raises Damaged, also for an animation and without libavif."""
    width, height = _opened(data).size
    return Head(width, height, MEMORY, PLANES)


def check(data: bytes, head: Head) -> None:
    """libavif bounds its own work: boxes, tiles and dimensions."""


def rgb(data: bytes, param: str, halvings: int) -> tuple[int, int, bytes]:
    """As of HEIC (``heif.rgb``), turned as the file asks for. Raises UnsupportedMedia."""
    from PIL import ImageOps

    try:
        smaller = _opened(data).reduce(1 << halvings).convert("RGB")
    except (Damaged, *FAILURES) as error:
        raise UnsupportedMedia(f"{param} is damaged or of a kind that is not read: {error}", param=param) from None
    turned = ImageOps.exif_transpose(smaller)
    return *turned.size, turned.tobytes()


def _opened(data: bytes) -> Any:
    """The file, none of whose pixels is decoded yet."""
    if not _has_libavif():
        raise Damaged("AVIF is read by Pillow with libavif: pip install --upgrade pillow; or send it as JPEG")
    from PIL import AvifImagePlugin

    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # a child may start none
    try:
        # Not by Image.open, which has a limit of pixels of its own.
        picture = AvifImagePlugin.AvifImageFile(BytesIO(data))
    except FAILURES as error:
        raise Damaged(str(error)) from None
    if picture.n_frames > 1:
        raise Damaged("it is an animation; send one picture")
    return picture


def _has_libavif() -> bool:
    """Pillow has it since 11.3, in its wheels."""
    return importlib.util.find_spec("PIL") is not None and importlib.util.find_spec("PIL._avif") is not None
