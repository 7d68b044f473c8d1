"""Entry of the children that read the text of PDF files."""

from __future__ import annotations

import os
import socket
from typing import Any

from edgeserve.errors import TooLarge, UnsupportedMedia
from edgeserve.media import bounded
from edgeserve.processes.frames import Channel, Frame, Kind

NICE = 10
"""A crafted file takes all the processor time that it may. The answers of others come first."""


def text(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Read the file that the first frame brings. One frame comes back: [pages] and the text as UTF-8."""
    os.nice(NICE)
    bounded.answer(sock, arguments, _text)


def _text(channel: Channel, frame: Frame) -> None:
    import io
    import logging

    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its remarks quote the file
    head, param = frame.head, frame.head["param"]
    try:
        reader = pypdf.PdfReader(io.BytesIO(bytes(frame.body)))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnsupportedMedia(f"{param} is encrypted; send it without a password", param=param)
        pages = len(reader.pages)
        if pages > head["max_pages"]:
            text = f"{param} has {pages} pages; the limit is {head['max_pages']}: send fewer at a time"
            raise TooLarge(text, param=param)
        parts: list[str] = []
        left = head["max_chars"]
        for page in reader.pages:
            parts.append(page.extract_text())
            left -= len(parts[-1])
            if left < 0:
                raise TooLarge(
                    f"{param} has more than {head['max_chars']} characters of text; send fewer pages", param=param
                )
    except (TooLarge, UnsupportedMedia, MemoryError):
        raise
    except Exception as error:  # pypdf raises whatever a crafted file makes of it
        text = f"{param} is damaged or of a kind of PDF that is not read: {type(error).__name__}: {str(error)[:200]}"
        raise UnsupportedMedia(text, param=param) from None
    channel.send(Kind.EVENTS, 0, [pages], "\n".join(parts).encode(errors="replace"))
