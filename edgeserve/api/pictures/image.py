"""Checks of pictures before anything decodes them.

The checks refuse a picture on which a decoder would fail, or take more memory and time than its dimensions promise.
"""

from __future__ import annotations

from types import ModuleType
from typing import Protocol

from edgeserve.api.pictures import avif, bmp, gif, heif, jpeg, png, webp
from edgeserve.api.pictures.file import Damaged, Head
from edgeserve.errors import TooLarge, UnsupportedMedia

FORMS: dict[bytes, ModuleType] = {png.SIGNATURE: png, jpeg.SOI: jpeg, b"GIF": gif, b"BM": bmp, webp.SIGNATURE: webp}
"""Formats by the first bytes of a file."""
BOXED: tuple[ModuleType, ...] = (heif, avif)
"""Formats of files in boxes (ISO/IEC 14496-12), which differ by their brand."""
MEMORY = 8
"""Bytes a pixel that decoding the largest picture may take, as for a PNG of 8-bit RGBA."""
WHOLE = 14
"""The same for a picture that is decoded smaller: with the largest picture of 20 million pixels, 280 MB."""
HALVINGS = 3
"""Most times that FFmpeg halves the sides of a JPEG picture while it decodes it."""
MAX_REDUCED = 250_000_000
"""Pixels of the largest picture that is decoded smaller: FFmpeg reads none beyond 268 million."""
MAX_RATIO = 200
"""Longer side by shorter side. Qwen2-VL refuses more, and projectors for smaller pictures round a side to 0."""


class PixelLimit(Protocol):
    """The largest picture."""

    @property
    def max_image_pixels(self) -> int: ...


def check_image(data: bytes, limits: PixelLimit, param: str = "image") -> int:
    """Pixels of the picture in a file of one of the forms, as it is decoded. Raises UnsupportedMedia, and TooLarge.

    A JPEG, WebP, HEIC or AVIF picture with too many pixels is decoded smaller (``halvings``).
    """
    if not data:
        raise UnsupportedMedia(f"{param} is empty", param=param)
    form = form_of(data)
    if form is None:
        kinds = "PNG, JPEG, GIF, BMP, WebP, HEIC nor AVIF"
        raise UnsupportedMedia(f"{param} is neither {kinds} (it begins with {data[:12]!r})", param=param)
    try:
        head = form.read_head(data)
        times = _check_size(head, limits, param)
        form.check(data, head)
    except Damaged as error:
        raise UnsupportedMedia(f"{param} is damaged or of a kind that is not read: {error}", param=param) from None
    return reduced(head.width, times) * reduced(head.height, times)


def form_of(data: bytes) -> ModuleType | None:
    """The module of a file's form; None for a form that is not read."""
    boxed = (form for form in BOXED if form.matches(data))
    return next(boxed, None) or next((form for begin, form in FORMS.items() if data.startswith(begin)), None)


def halvings(data: bytes, limits: PixelLimit) -> int:
    """Times that each side of a checked picture is halved while it is decoded; 0 for one that is decoded as it is."""
    form = form_of(data)
    return (_halvings(form.read_head(data), limits) or 0) if form in (*BOXED, jpeg, webp) else 0


def reduced(side: int, times: int) -> int:
    """A side after so many halvings, rounded up as FFmpeg does."""
    return -(-side >> times)


def _halvings(head: Head, limits: PixelLimit) -> int | None:
    """The least number of halvings with which a picture is within the limits; None where none is enough."""
    most, pixels, whole = limits.max_image_pixels, head.width * head.height, head.whole or 0.0
    for times in range(1 if head.whole is None or pixels > MAX_REDUCED else HALVINGS + 1):
        left = reduced(head.width, times) * reduced(head.height, times)
        if left <= most and whole * pixels + (head.memory - whole) * left <= (WHOLE if times else MEMORY) * most:
            return times
    return None


def _most(head: Head, limits: PixelLimit) -> int:
    """Pixels of the largest picture of this kind."""
    if head.whole is None:
        return int(limits.max_image_pixels * min(1.0, MEMORY / head.memory))
    by_memory = WHOLE * limits.max_image_pixels / head.whole if head.whole else MAX_REDUCED
    return min(MAX_REDUCED, int(by_memory), limits.max_image_pixels << 2 * HALVINGS)


def _check_size(head: Head, limits: PixelLimit, param: str) -> int:
    """The halvings of a picture. Raises UnsupportedMedia, and TooLarge where none are enough."""
    width, height = head.width, head.height
    if not width or not height:
        raise UnsupportedMedia(f"{param} is damaged or has no pixels ({width}×{height})", param=param)
    if max(width, height) > MAX_RATIO * min(width, height):
        text = f"{param} is {width}×{height}; its longer side may be {MAX_RATIO} times its shorter one at most"
        raise UnsupportedMedia(text, param=param)
    times = _halvings(head, limits)
    if times is None:
        most = _most(head, limits)
        kind = " of its kind" if most != limits.max_image_pixels else ""
        raise TooLarge(
            f"{param} is {width}×{height}, {width * height / 1e6:.0f} million pixels; the limit{kind} is "
            f"{most / 1e6:.0f} million: send it smaller",
            param=param,
        )
    return times
