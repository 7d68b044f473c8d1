"""The pictures in a conversation: checked when they come, and decoded for each answer.

A session keeps the files, since the pixels are up to a hundred times as large.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.datastructures import State
from starlette.types import Message as Received

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.pictures.reader import Reader
from edgeserve.api.realtime.commands import Command, Create, Respond
from edgeserve.api.realtime.conversation import Conversation
from edgeserve.api.realtime.items import PICTURE, Item, PicturePiece
from edgeserve.errors import TooLarge
from edgeserve.messages import Message, TextPart


class Pictures:
    """Reads the pictures of one session."""

    def __init__(self, state: State) -> None:
        self._limits: Limits = state.limits
        self._reader = Reader(state, _stays)

    async def check(self, command: Command) -> bool:
        """Whether an event brings pictures. Raises InvalidRequest and its kinds for one that cannot be read."""
        found = list(_parts(command))
        if len(found) > (most := Conversation.PICTURES):
            name = found[most][0]
            raise TooLarge(f"{name}: the event brings {len(found)} pictures; the limit is {most}", param=name)
        for name, part in found:
            piece = PicturePiece(Fields(part, f"{name}."), self._limits)
            await self._reader.read(piece.image_url, f"{name}.image_url")
        return bool(found)

    async def messages(self, items: Iterable[Item]) -> list[Message]:
        """The items as engines read them. Items that say nothing are left out. Raises TooLarge for many pictures."""
        items = list(items)
        if (count := sum(len(one.pictures) for one in items)) > (most := Conversation.PICTURES):
            raise TooLarge(f"the answer would take {count} pictures; the limit is {most}: refer to fewer items")
        messages = []
        for item in items:
            read = {at: await self._reader.read(data, f"content[{at}]") for at, data in item.pictures.items()}
            if (message := item.message(read)) is not None:
                messages.append(message)
        return messages or [Message("user", (TextPart(""),))]


def _parts(command: Command) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and values of the parts that are pictures."""
    for path, item in _items(command):
        content = item.get("content") if isinstance(item, dict) else None
        for at, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict) and part.get("type") == PICTURE:
                yield f"{path}.content[{at}]", part


def _items(command: Command) -> Iterator[tuple[str, Any]]:
    if isinstance(command, Create) and command.item is not None:
        yield "item", dict(command.item.items())
    if isinstance(command, Respond) and command.response is not None:
        given = command.response.raw("input")
        for at, item in enumerate(given if isinstance(given, list) else ()):
            yield f"response.input[{at}]", item


async def _stays() -> Received:
    """The reader of the connection sees its end, and cancels the session's work."""
    never: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
    return await never
