"""Checks of pictures before anything decodes them.

The checks refuse a picture on which a decoder would fail, or take more memory and time than its dimensions promise.
"""

from __future__ import annotations

from types import ModuleType
from typing import Protocol

from edgeserve.api.pictures import bmp, gif, jpeg, png, webp
from edgeserve.api.pictures.file import Damaged
from edgeserve.errors import TooLarge, UnsupportedMedia

FORMS: dict[bytes, ModuleType] = {png.SIGNATURE: png, jpeg.SOI: jpeg, b"GIF": gif, b"BM": bmp, webp.SIGNATURE: webp}
"""Formats by the first bytes of a file."""
MEMORY = 8
"""Bytes a pixel that decoding the largest picture may take, as for a PNG of 8-bit RGBA."""
MAX_RATIO = 200
"""Longer side by shorter side. Qwen2-VL refuses more, and projectors for smaller pictures round a side to 0."""


class PixelLimit(Protocol):
    """The largest picture."""

    @property
    def max_image_pixels(self) -> int: ...


def check_image(data: bytes, limits: PixelLimit, param: str = "image") -> int:
    """Pixels of the picture in a file of one of the forms. Raises UnsupportedMedia, and TooLarge for too many."""
    if not data:
        raise UnsupportedMedia(f"{param} is empty", param=param)
    form = next((form for begin, form in FORMS.items() if data.startswith(begin)), None)
    if form is None:
        raise UnsupportedMedia(
            f"{param} is neither PNG, JPEG, GIF, BMP nor WebP (it begins with {data[:4]!r})", param=param
        )
    try:
        head = form.read_head(data)
        _check_size(head.width, head.height, head.memory, limits, param)
        form.check(data, head)
    except Damaged as error:
        raise UnsupportedMedia(f"{param} is damaged or of a kind that is not read: {error}", param=param) from None
    pixels: int = head.width * head.height
    return pixels


def _check_size(width: int, height: int, memory: float, limits: PixelLimit, param: str) -> None:
    if not width or not height:
        raise UnsupportedMedia(f"{param} is damaged or has no pixels ({width}×{height})", param=param)
    if max(width, height) > MAX_RATIO * min(width, height):
        text = f"{param} is {width}×{height}; its longer side may be {MAX_RATIO} times its shorter one at most"
        raise UnsupportedMedia(text, param=param)
    most = int(limits.max_image_pixels * min(1.0, MEMORY / memory))
    if width * height > most:
        kind = " of its kind" if most < limits.max_image_pixels else ""
        raise TooLarge(
            f"{param} is {width}×{height}, {width * height / 1e6:.0f} million pixels; the limit{kind} is "
            f"{most / 1e6:.0f} million: send it smaller",
            param=param,
        )
