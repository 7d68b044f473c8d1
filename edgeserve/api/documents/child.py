"""Entry of the children that read the text of PDF files."""

from __future__ import annotations

import socket
from typing import Any

from edgeserve.errors import TooLarge, UnsupportedMedia
from edgeserve.media import bounded
from edgeserve.processes.frames import Channel, Frame, Kind


def text(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Read the file that the first frame brings. A frame comes back for each page: its text as UTF-8.

    While the answers of others take all processors, a file may take minutes. Each page shows that the work goes on.
    """
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
        left = head["max_chars"]
        for page in reader.pages:
            text = page.extract_text()
            left -= len(text)
            if left < 0:
                raise TooLarge(
                    f"{param} has more than {head['max_chars']} characters of text; send fewer pages", param=param
                )
            channel.send(Kind.EVENTS, 0, None, text.encode(errors="replace"))
    except (ConnectionError, TooLarge, UnsupportedMedia, MemoryError):
        raise
    except Exception as error:  # pypdf raises whatever a crafted file makes of it
        text = f"{param} is damaged or of a kind of PDF that is not read: {type(error).__name__}: {str(error)[:200]}"
        raise UnsupportedMedia(text, param=param) from None
