"""The conversation of a request: items of stored responses, and the request's own items."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence

from edgeserve.api.fields import Fields, clipped
from edgeserve.api.json_schema import ENCODER
from edgeserve.api.limits import Limits
from edgeserve.api.responses.items import Item, ReferenceItem, read_item
from edgeserve.api.responses.store import Owner, ResponseStore, StoredItem
from edgeserve.dataclass import dataclass
from edgeserve.errors import InvalidRequest, NotFound, PreviousResponseNotFound, TooLarge
from edgeserve.units import MB

SHOWN = 100
"""Characters of an id that an error quotes."""
Pair = tuple[StoredItem, Item]


@dataclass(frozen=True, slots=True)
class History:
    """Stored items: ``past`` of the response to continue from. ``known`` gives all of the client, by id."""

    past: tuple[StoredItem, ...] = ()
    known: Callable[[], Mapping[str, StoredItem]] = dict

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(one.size for one in self.past)

    def pairs(self, given: Sequence[Item], limits: Limits) -> Iterator[Pair]:
        """All items in their order, each as it is stored and as it was read.

        Items of tools that are not here are left out. Raises InvalidRequest, NotFound for an unknown reference, and
        TooLarge where the items that are referred to would be too large a request.
        """
        for one in self.past:
            yield one, _read(one, limits)
        size = 0
        known = self.known() if refers(given) else {}
        for item in given:
            if isinstance(item, ReferenceItem):
                found = _referenced(item, known)
                size += found.size  # a reference of 50 bytes may stand for megabytes, and any number of times
                if size > limits.max_json_bytes:
                    most = limits.max_json_bytes // MB
                    text = f"refers to items of more than {most} MB together, which is the limit: refer to fewer"
                    raise TooLarge(f"{item.place} {text}", param=item.place)
                yield found, _read(found, limits)
            elif item.PREFIX:
                yield stored(item), item


def refers(given: Sequence[Item]) -> bool:
    """Whether an item refers to a stored one. The search among all items of a client may take tens of milliseconds."""
    return any(isinstance(one, ReferenceItem) for one in given)


def _referenced(item: ReferenceItem, known: Mapping[str, StoredItem]) -> StoredItem:
    found = known.get(item.id)
    if found is None:
        text = f"Item with id '{clipped(item.id, SHOWN)}' not found: no stored response of this client has it"
        raise NotFound(text, param=item.place)
    return found


def history(store: ResponseStore, owner: Owner, previous: str) -> History:
    """The stored items that a request may need. Raises PreviousResponseNotFound."""
    past: tuple[StoredItem, ...] = ()
    if previous:
        if (found := store.find(previous, owner)) is None:
            raise PreviousResponseNotFound(
                f"Previous response with id '{clipped(previous, SHOWN)}' not found. The server keeps the latest "
                "responses of each client in memory, where store is not false: send the whole conversation in input",
                param="previous_response_id",
            )
        past = found.items
    return History(past, functools.partial(store.items, owner))


def stored(item: Item) -> StoredItem:
    """An item as it is kept, under its own id or a new one. Raises InvalidRequest."""
    name = item.id or f"{item.PREFIX}_{secrets.token_hex(16)}"
    try:
        data = "".join(ENCODER.iterencode({"id": name} | item.told())).encode()
    except ValueError:  # 1e999 was read as infinite
        raise InvalidRequest(f"{item.place} holds a number beyond the range of a float", param=item.place) from None
    return StoredItem(name, data)


def _read(item: StoredItem, limits: Limits) -> Item:
    return read_item(Fields(json.loads(item.data), f"{item.id}."), limits)
