from __future__ import annotations

import inspect

from support.cases import each

from edgeserve.api.entry import Entry
from edgeserve.api.routes import ENTRIES
from edgeserve.api.schema import Record
from edgeserve.named import find


@each("handler", sorted({one.handler for one in ENTRIES}))
def test_the_handler_of_every_route_is_there(handler: str) -> None:
    found = find(handler)
    assert inspect.iscoroutinefunction(found)
    assert len(inspect.signature(found).parameters) == 1


def test_handlers_of_jobs_parse_and_others_answer() -> None:
    for one in ENTRIES:
        returned = inspect.signature(find(one.handler)).return_annotation
        assert (returned == "Call") is bool(one.jobs), one.handler


def test_records_and_media_types_of_every_route_are_there() -> None:
    for one in ENTRIES:
        for record, name in ((one.body, one.record), (one.query, one.asked)):
            assert (record is not None) is bool(name)
            assert record is None or issubclass(record, Record)
        assert one.media_types
        assert all("/" in media for media in one.media_types)


def test_a_name_alone_is_one_of_the_handlers_module() -> None:
    room = "edgeserve.api.slots"
    entry = Entry("GET", "/", "", f"{room}:list_slots", asked="SlotsQuery")
    assert entry.query is find(f"{room}:SlotsQuery")
    assert entry.body is None
    assert entry.media_types == ("application/json",)


def test_media_types_may_come_from_a_room() -> None:
    entry = Entry("GET", "/", "", "", media="edgeserve.api.openai.speech:MEDIA_TYPES")
    assert entry.media_types[0] == "audio/mpeg"
    assert entry.media_types[-1] == "text/event-stream"
