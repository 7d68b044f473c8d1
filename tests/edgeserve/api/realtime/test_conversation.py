"""The items of a conversation, and the events about them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.api.realtime.conversation import Conversation
from edgeserve.api.realtime.items import Item
from edgeserve.errors import InvalidRequest
from edgeserve.talk.spoken import Spoken


class Events:
    """A sender that keeps the events."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, kind: str, **fields: Any) -> None:
        self.seen.append((kind.removeprefix("conversation.item."), fields))


def message(name: str, size: int = 1, role: str = "user") -> Item:
    return Item(name, role=role, content=[{"type": "input_text", "text": "x" * size}])


def test_an_item_goes_to_its_place() -> None:
    tell = Events()
    conversation = Conversation(tell)
    for item, after in ((message("b"), None), (message("a"), "root"), (message("c"), "a")):
        conversation.add(item, after)
        conversation.finish(item)
    assert [one.id for one in conversation.items] == ["a", "c", "b"]
    assert conversation.last == "b"
    told = [(kind, fields["item"]["id"], fields["previous_item_id"]) for kind, fields in tell.seen]
    assert told == [(kind, *one) for one in (("b", None), ("a", None), ("c", "a")) for kind in ("added", "done")]


def test_refused_items_change_nothing() -> None:
    tell = Events()
    conversation = Conversation(tell)
    conversation.add(message("a"))
    for refused in (
        lambda: conversation.add(message("a")),
        lambda: conversation.add(message("b"), "nobody"),
        lambda: conversation.remove("b"),
        lambda: conversation.truncate("a", 0, 100),
        lambda: conversation.retrieve("b"),
    ):
        with pytest.raises(InvalidRequest):
            refused()
    assert [one.id for one in conversation.items] == ["a"]
    assert len(tell.seen) == 1


def test_speech_is_cut_to_the_words_that_were_heard() -> None:
    tell = Events()
    conversation = Conversation(tell)
    spoken = Spoken()
    spoken.begin("one two three four")
    spoken.add(4.0)
    spoken.finish()
    item = Item("a", role="assistant", content=[{"type": "output_audio", "transcript": spoken.text}], spoken=spoken)
    conversation.add(item)
    conversation.truncate("a", 0, 2_000)
    assert item.content[0]["transcript"] == "one two "
    assert tell.seen[-1] == ("truncated", {"item_id": "a", "content_index": 0, "audio_end_ms": 2_000})


@pytest.mark.parametrize("parts", [1, 2, 16, 64])
@pytest.mark.parametrize("text", ["", "x" * 20])
def test_parts_count_however_short_they_are(parts: int, text: str) -> None:
    """Eight sessions of 512 items, each of 64 empty parts, took 56 MB."""
    conversation = Conversation(Events())
    for number in range(Conversation.MOST):
        item = Item(str(number), role="user", content=[{"type": "input_text", "text": text} for _ in range(parts)])
        conversation.add(item)
        conversation.crowd_out(item)
    kept = sum(len(one.content) for one in conversation.items)
    assert kept <= Conversation.CHARS / 64
    assert len(conversation.items) == Conversation.MOST or kept >= 2000


@given(st.lists(st.tuples(st.sampled_from(["system", "user"]), st.integers(0, 60_000)), max_size=30))
def test_what_is_crowded_out_is_the_oldest_and_no_more_than_needed(given: list[tuple[str, int]]) -> None:
    tell = Events()
    conversation, last = Conversation(tell), message("last", 0)
    for number, (role, size) in enumerate(given):
        conversation.add(message(str(number), size, role))
    conversation.add(last)
    items = list(conversation.items)
    conversation.crowd_out(last)
    told = [fields["item_id"] for kind, fields in tell.seen if kind == "deleted"]
    gone = [next(one for one in items if one.id == name) for name in told]
    assert [one for one in items if one not in gone] == conversation.items
    left = sum(one.size for one in conversation.items)
    assert left <= Conversation.CHARS
    assert conversation.held == 4 * left
    if gone:
        assert left + gone[-1].size > Conversation.CHARS
        order = sorted(items[:-1], key=lambda one: one.role == "system")
        assert gone == order[: len(gone)]


def test_items_count_with_their_pictures() -> None:
    conversation = Conversation(Events())
    seen = Item("a", role="user", content=[{"type": "input_image"}], pictures={0: bytes(1000)})
    for item in (seen, message("b", 36)):
        conversation.add(item)
        conversation.crowd_out(item)
    assert conversation.held == 4 * 64 + 1000 + 4 * (64 + 36)
    conversation.remove("a")
    assert conversation.held == 400
