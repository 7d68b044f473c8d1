"""Decodes WebP files by FFmpeg, since the decoder of llama.cpp's multimodal library reads none."""

from __future__ import annotations

from edgeserve.errors import UnsupportedMedia


def rgb(data: bytes, param: str) -> tuple[int, int, bytes]:
    """Width, height and bytes of a checked picture, three bytes a pixel. Raises UnsupportedMedia."""
    import av

    try:
        decoder = av.CodecContext.create("webp", "r")
        decoder.thread_count = 1
        frames = [*decoder.decode(av.Packet(data)), *decoder.decode(None)]
        if len(frames) != 1:
            raise UnsupportedMedia(f"{param} is damaged: it holds {len(frames)} pictures", param=param)
        frame = frames[0].reformat(format="rgb24")
    except (av.error.FFmpegError, ValueError) as error:
        raise UnsupportedMedia(f"{param} is damaged or of a kind that is not read: {error}", param=param) from None
    plane, width, height = frame.planes[0], frame.width, frame.height
    rows, line = memoryview(plane), plane.line_size
    if line == 3 * width:
        return width, height, bytes(rows[: line * height])
    return width, height, b"".join(bytes(rows[row * line : row * line + 3 * width]) for row in range(height))
