"""HEIC files (ISO/IEC 23008-12), which telephones make. libheif reads them."""

from __future__ import annotations

import importlib.util
from typing import Any

from edgeserve.api.pictures.file import FAILURES, Damaged, Head
from edgeserve.errors import UnsupportedMedia

BRANDS = (b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1")
PACKAGE = "pi_heif"
WAY_OUT = "send it as JPEG (an iPhone does with Settings, Camera, Formats, Most Compatible)"
PLANES, MEMORY = 4.5, 8.0
"""Bytes a pixel: the planes of the decoder with RGB beside them, and all with a copy of the result."""


def matches(data: bytes) -> bool:
    """Whether a file begins as one of HEIC."""
    return data[4:8] == b"ftyp" and data[8:12] in BRANDS


def read_head(data: bytes) -> Head:
    """Dimensions after the rotation that the file asks for. Raises Damaged, and UnsupportedMedia without libheif."""
    width, height = _opened(data).size
    return Head(width, height, MEMORY, PLANES)


def check(data: bytes, head: Head) -> None:
    """libheif bounds its own work: tiles, references and boxes."""


def rgb(data: bytes, param: str, halvings: int) -> tuple[int, int, bytes]:
    """Width, height and bytes of a checked picture, three bytes a pixel. Raises UnsupportedMedia.

    The picture is decoded whole. Then each pixel is the mean of a square, whose sides are halved so often.
    """
    from PIL import Image

    try:
        file = _opened(data)
        whole = Image.frombuffer(file.mode, file.size, file.data, "raw", file.mode, file.stride, 1)
    except (Damaged, *FAILURES) as error:
        raise UnsupportedMedia(f"{param} is damaged or of a kind that is not read: {error}", param=param) from None
    plain = whole.reduce(1 << halvings).convert("RGB")
    return *plain.size, plain.tobytes()


def _opened(data: bytes) -> Any:
    """The file, none of whose pixels is decoded yet."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise Damaged(f"HEIC is read by the package pi-heif, which is missing here: pip install pi-heif; or {WAY_OUT}")
    import pi_heif

    pi_heif.options.DECODE_THREADS = 1  # a child may start none
    try:
        return pi_heif.open_heif(data, convert_hdr_to_8bit=True)
    except FAILURES as error:
        raise Damaged(str(error)) from None
