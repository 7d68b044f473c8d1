"""The text of files that a chat brings. PDF files are read in short-lived children: they may be hostile."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Protocol

from edgeserve.api.limits import Limits
from edgeserve.errors import NotSupported, TooLarge, UnsupportedMedia
from edgeserve.media.children import Children
from edgeserve.media.helper import Helper
from edgeserve.media.leash import Leash
from edgeserve.media.task import Bounds, Task
from edgeserve.processes.frames import Kind
from edgeserve.residency.aside import Aside
from edgeserve.units import MB

CHECKS = Aside("reading of documents", threads=2)
CHILD = "edgeserve.api.documents.child"
PDF, PDF_WITHIN = b"%PDF-", 1024
"""The mark of a PDF file, and the bytes in which it may stand (ISO 32000-2, annex I)."""
MAX_PAGES = 500
MEMORY, CPU = 512 * MB, 20
"""Bytes and seconds of processor time that a child may take. A page of text takes some tens of milliseconds."""
ADVICE = "send its text"


class Documents(Protocol):
    """Any thread may use it."""

    def text(self, data: bytes, limits: Limits, param: str, leash: Leash) -> str:
        """The text of a PDF file. Blocks for seconds.

        Raises NotSupported, UnsupportedMedia, TooLarge, Busy, and Cancelled once ``leash`` is cut.
        """
        ...


class DocumentsHere:
    """Reads no PDF files: nothing could end the work on a crafted one in this process."""

    def text(self, data: bytes, limits: Limits, param: str, leash: Leash) -> str:
        text = f'{param} is a PDF file, which a server with isolation = "thread" does not read'
        raise NotSupported(f"{text}; {ADVICE}, or change the setting", param=param)


class DocumentsApart:
    """A reader that starts a child for each file."""

    def __init__(self, children: Children) -> None:
        self._children = children

    def text(self, data: bytes, limits: Limits, param: str, leash: Leash) -> str:
        if importlib.util.find_spec("pypdf") is None:
            text = f"{param} is a PDF file, and pypdf is not installed here"
            raise NotSupported(f"{text}; {ADVICE}, or pip install 'edgeserve[pdf]'", param=param)
        task = Task(f"{CHILD}:text", "PDF reader", param, Bounds(MEMORY, CPU), param, ADVICE)
        with self._children.start(task, leash) as helper:
            helper.send({"param": param, "max_chars": limits.max_text_chars, "max_pages": MAX_PAGES}, data)
            return "\n".join(_pages(helper, limits.max_text_chars))


def _pages(helper: Helper, most: int) -> Iterator[str]:
    """The text of each page, ``most`` characters together. Raises as ``Helper.receive``, also for pages of nonsense."""
    pages = 0
    while (frame := helper.receive()).kind is Kind.EVENTS:
        try:
            text = bytes(frame.body).decode()
        except UnicodeDecodeError:
            raise helper.nonsense() from None
        pages, most = pages + 1, most - len(text)
        if most < 0 or pages > MAX_PAGES:
            raise helper.nonsense()
        yield text


def is_pdf(data: bytes) -> bool:
    return PDF in data[:PDF_WITHIN]


def plain_text(data: bytes, limits: Limits, param: str) -> str:
    """The text of a file of UTF-8. Raises UnsupportedMedia and TooLarge."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        known = "UTF-8 text, PDF, or a picture"
        raise UnsupportedMedia(
            f"{param} is no file that is read here (it begins with {data[:4]!r}); send {known}", param=param
        )
    if len(text) > limits.max_text_chars:
        raise TooLarge(
            f"{param} has {len(text)} characters; the limit is {limits.max_text_chars}: send less, or raise "
            "max_text_chars in models.toml",
            param=param,
        )
    return text
