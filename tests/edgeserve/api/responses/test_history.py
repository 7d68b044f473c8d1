"""The stored items that a request refers to."""

from __future__ import annotations

import pytest

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.responses.history import History
from edgeserve.api.responses.items import Item, read_item
from edgeserve.api.responses.store import StoredItem
from edgeserve.errors import TooLarge
from edgeserve.units import MB

LIMITS = Limits(max_json_bytes=MB)


def references(count: int) -> list[Item]:
    one = {"type": "item_reference", "id": "msg_1"}
    return [read_item(Fields(one, f"input[{number}]."), LIMITS) for number in range(count)]


def test_items_that_a_request_refers_to_are_no_larger_than_a_request() -> None:
    """A reference of 50 bytes may stand for megabytes, and a request may hold 40,000 of them."""
    data = b'{"type": "message", "role": "user", "content": "%s"}' % (b"x" * (MB // 4))
    known = History(known=lambda: {"msg_1": StoredItem("msg_1", data)})
    assert len(list(known.pairs(references(3), LIMITS))) == 3
    with pytest.raises(TooLarge, match=r"input\[3\] refers to items of more than 1 MB together") as caught:
        list(known.pairs(references(5), LIMITS))
    assert caught.value.param == "input[3]"
