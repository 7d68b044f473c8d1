"""Decoded pictures of requests, which are given back as soon as the engine has read them."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.messages import ChatRequest, Event, LoosenedEvent, Request


class Pictures:
    """The pictures of requests that may share them. The thread of the host alone calls ``see``.

    An answer may take minutes and its reader longer, and a picture takes up to 60 MB.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        found = [image for one in requests if isinstance(one, ChatRequest) for image in one.images]
        self._pictures = tuple(found)
        self._unread = set(range(len(requests))) if found else set()

    def see(self, number: int, event: Event) -> None:
        """Note an event of request ``number``. All but those about its schema come once its prompt is cut."""
        if number in self._unread and not isinstance(event, LoosenedEvent):
            self._unread.remove(number)
            if not self._unread:
                for one in self._pictures:
                    one.release()
                self._pictures = ()
