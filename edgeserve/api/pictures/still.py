"""Decodes checked pictures that the decoder of llama.cpp's library cannot: WebP, HEIC, AVIF, and JPEG at a fraction of
its size."""

from __future__ import annotations

from typing import Any

from edgeserve.api.pictures import webp
from edgeserve.api.pictures.image import BOXED, PixelLimit, form_of, halvings, reduced
from edgeserve.errors import UnsupportedMedia


def decoded(data: bytes, limits: PixelLimit, param: str) -> tuple[int, int, bytes] | None:
    """As ``rgb``, of a checked picture in any form; None where the decoder of llama.cpp's library does that.

    Raises UnsupportedMedia.
    """
    times = halvings(data, limits)
    if (form := form_of(data)) in BOXED:
        found: tuple[int, int, bytes] = form.rgb(data, param, times)
        return found
    if form is webp:
        return rgb("webp", data, param, times)
    return rgb("mjpeg", data, param, times) if times else None


def rgb(codec: str, data: bytes, param: str, halvings: int = 0) -> tuple[int, int, bytes]:
    """Width, height and bytes of a checked picture, three bytes a pixel. Raises UnsupportedMedia.

    ``halvings``: each side is halved so often, at most 3 times. "mjpeg" does that while it decodes; a picture of
    another codec is decoded whole, and each of its pixels is the mean of a square.
    """
    import av

    lowres = halvings if codec == "mjpeg" else 0
    try:
        decoder: Any = av.CodecContext.create(codec, "r")
        decoder.thread_count = 1
        decoder.options = {"lowres": str(lowres)} if lowres else {}
        frames = [*decoder.decode(av.Packet(data)), *decoder.decode(None)]
        if len(frames) != 1:
            raise UnsupportedMedia(f"{param} is damaged: it holds {len(frames)} pictures", param=param)
        times = halvings - lowres
        size = [reduced(side, times) for side in (frames[0].width, frames[0].height)]
        frame = frames[0].reformat(*size, "rgb24", interpolation="AREA" if times else None)
    except (av.error.FFmpegError, ValueError) as error:
        raise UnsupportedMedia(f"{param} is damaged or of a kind that is not read: {error}", param=param) from None
    plane, width, height = frame.planes[0], frame.width, frame.height
    rows, line = memoryview(plane), plane.line_size
    if line == 3 * width:
        return width, height, bytes(rows[: line * height])
    return width, height, b"".join(bytes(rows[row * line : row * line + 3 * width]) for row in range(height))
