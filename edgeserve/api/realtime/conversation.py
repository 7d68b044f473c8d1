"""The conversation of a session: its items in their order, and the events about them."""

from __future__ import annotations

from collections.abc import Callable

from edgeserve.api.realtime.items import Item
from edgeserve.errors import InvalidRequest

Tell = Callable[..., None]
"""Sends an event, by its type and fields."""


class Conversation:
    """Number, characters and pictures of the items are bounded: the oldest items make room."""

    MOST, CHARS = 512, 262_144
    PICTURES = 3
    """The engine decodes the pictures together, with three bytes a pixel."""

    def __init__(self, tell: Tell) -> None:
        self.items: list[Item] = []
        self.held = 0
        """Bytes of the items, about."""
        self._tell = tell

    @property
    def last(self) -> str | None:
        """Id of the last item."""
        return self.items[-1].id if self.items else None

    def find(self, name: str) -> Item:
        """Raises InvalidRequest for an item that is not there."""
        for item in self.items:
            if item.id == name:
                return item
        raise InvalidRequest(f"there is no item {name[:80]!r} in the conversation", param="item_id")

    def add(self, item: Item, after: str | None = None) -> None:
        """Add an item at the end, behind item ``after``, or with "root" first.

        Raises InvalidRequest for an id that is there, and an ``after`` that is not.
        """
        if any(one.id == item.id for one in self.items):
            raise InvalidRequest(f"there is an item {item.id[:80]!r} already", param="item.id")
        at = len(self.items)
        if after is not None:
            at = 0 if after == "root" else self.items.index(self.find(after)) + 1
        self.items.insert(at, item)
        self._tell("conversation.item.added", previous_item_id=self._before(at), item=item.written())

    def finish(self, item: Item) -> None:
        """The item has all its content."""
        at = next((number for number, one in enumerate(self.items) if one is item), 0)
        self._tell("conversation.item.done", previous_item_id=self._before(at), item=item.written())

    def retrieve(self, name: str) -> None:
        """Send an item. Raises InvalidRequest for one that is not there."""
        self._tell("conversation.item.retrieved", item=self.find(name).written())

    def truncate(self, name: str, part: int, milliseconds: int) -> None:
        """Forget what nobody heard of an item. Raises InvalidRequest for an item without speech."""
        item = self.find(name)
        if item.spoken is None:
            raise InvalidRequest(f"item {item.id} holds no speech of the assistant", param="item_id")
        item.spoken.cut(milliseconds / 1000)  # an end behind the speech cuts nothing: some clients play late
        item.content[0]["transcript"] = item.spoken.text
        place = {"content_index": part, "audio_end_ms": milliseconds}
        self._tell("conversation.item.truncated", item_id=item.id, **place)

    def remove(self, name: str) -> None:
        """Raises InvalidRequest for an item that is not there."""
        self.items.remove(self.find(name))
        self._measure()
        self._tell("conversation.item.deleted", item_id=name)

    def crowd_out(self, kept: Item) -> None:
        """Remove the oldest items until the rest is within bounds, those of the system last; never ``kept``."""
        count, chars = len(self.items), sum(one.size for one in self.items)
        pictures = sum(len(one.pictures) for one in self.items)
        gone: list[Item] = []
        for one in sorted(self.items, key=lambda one: one.role == "system"):
            crowded = count > self.MOST or chars > self.CHARS or (pictures > self.PICTURES and one.pictures)
            if crowded and one is not kept:
                count, chars, pictures = count - 1, chars - one.size, pictures - len(one.pictures)
                gone.append(one)
        if gone:
            out = set(map(id, gone))
            self.items = [one for one in self.items if id(one) not in out]
        self._measure()
        for one in gone:
            self._tell("conversation.item.deleted", item_id=one.id)

    def _measure(self) -> None:
        self.held = sum(one.held for one in self.items)

    def _before(self, at: int) -> str | None:
        return self.items[at - 1].id if at else None
