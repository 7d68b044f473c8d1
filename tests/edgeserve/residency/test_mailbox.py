"""Events for one reader: in order, bounded in bytes, and counted over all readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.clients import Client
from edgeserve.errors import Busy
from edgeserve.memory.traffic import Own, own
from edgeserve.messages import (
    AudioEvent,
    Candidate,
    EmbeddingEvent,
    FinishEvent,
    ReasoningEvent,
    SegmentEvent,
    TokenEvent,
    TokenLogprob,
    ToolCall,
    ToolCallEvent,
    Word,
)
from edgeserve.residency.host import LONG_PATIENCE
from edgeserve.residency.mailbox import LARGEST, OVERFULL, OWN, SHARE, SMALLEST, Deliveries, Kept, Mailbox
from edgeserve.residency.weight import EVENT_BYTES, weigh
from edgeserve.residency.work import Done
from edgeserve.units import MB


def within(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def sound(size: int) -> AudioEvent:
    return AudioEvent(bytes(size), 24_000)


@each(
    ("event", "more"),
    [
        (sound(1000), 1000),
        (EmbeddingEvent(bytes(1536), 3), 1536),
        (TokenEvent("word"), 4),
        (TokenEvent("word", (TokenLogprob(Candidate(b"a", 0), (Candidate(b"a", 0), Candidate(b"b", 0))),)), 400),
        (ReasoningEvent("thoughts"), 8),
        (ToolCallEvent(ToolCall("look", '{"up": "everything"}')), 24),
        (SegmentEvent(0, 1, " said", tokens=(1, 2), words=(Word(0, 1, "said"),)), 150),
        (FinishEvent("stop", 1, 1), 0),
        (Done(), 0),
    ],
)
def test_what_an_event_holds_is_counted(event: Any, more: int) -> None:
    assert weigh(event) >= EVENT_BYTES + more


@pytest.mark.slow
@given(st.lists(st.one_of(st.integers(0, LARGEST), st.none()), max_size=40))
def test_all_comes_in_order_and_the_count_is_what_is_there(steps: list[int | None]) -> None:
    """A number puts so much sound in, None reads."""

    async def test() -> None:
        deliveries, woken = Deliveries(), list[int]()
        box = Mailbox(deliveries, lambda: woken.append(1))
        inside: list[tuple[int, AudioEvent]] = []
        full = False
        for number, size in enumerate(steps):
            if size is None:
                if inside:
                    before = len(woken)
                    assert await box.get() == inside.pop(0)
                    if not inside and full:
                        assert len(woken) == before + 1, "empty and nobody was told"
                    full = full and len(woken) == before
            else:
                inside.append((number, sound(size)))
                box.put(*inside[-1])
                full = not box.room()
            assert deliveries.held == sum(weigh(item) for _, item in inside)
        box.close()
        assert deliveries.held == 0
        assert box.room()

    within(test)


def test_a_mailbox_is_full_at_its_share_and_wakes_at_half() -> None:
    async def test() -> None:
        woken: list[int] = []
        box = Mailbox(Deliveries(), lambda: woken.append(1))
        count = 0
        while box.room():
            box.put(0, sound(LARGEST // 8))
            count += 1
        assert count == 8
        while not woken:
            assert not box.room(), "whoever looks meanwhile takes nobody's call"
            await box.get()
            count -= 1
        assert count <= 4
        assert box.room()

    within(test)


def test_a_full_mailbox_takes_more_up_to_the_next_rest_while_few_are_so_full() -> None:
    async def test() -> None:
        deliveries = Deliveries(4 * 3 * OVERFULL)
        boxes = [Mailbox(deliveries) for _ in range(5)]
        for number, box in enumerate(boxes):
            box.put(0, sound(LARGEST))
            assert (box.room(), box.spare()) == (False, number < 3)
            while box.spare():
                box.put(0, sound(LARGEST))
        assert deliveries.held < 3 * OVERFULL + 5 * 2 * LARGEST
        boxes[0].close()
        assert (boxes[0].spare(), boxes[4].spare()) == (False, True)

    within(test)


def test_an_overfull_mailbox_takes_more_once_as_much_is_read_as_makes_room_in_a_full_one() -> None:
    """A reader of an event in 15 s held the memory of slow speech for 25 minutes, from one rest to the next."""

    async def test() -> None:
        box = Mailbox(Deliveries())
        while box.spare():
            box.put(0, sound(LARGEST // 4))
        for spare in (False, False, True):
            await box.get()
            assert box.spare() is spare
        box.put(0, sound(LARGEST // 4))
        assert box.spare()

    within(test)


@each("rate", [16_000, 22_050, 24_000])
def test_who_plays_speech_as_it_comes_reads_half_a_mailbox_in_time(rate: int) -> None:
    """Else the answer counts as one that nobody reads, and is cut where another engine needs the memory."""
    assert LARGEST / 2 / (2 * rate) < LONG_PATIENCE / 1.5


def test_many_slow_readers_get_less_each_and_all_together_are_bounded() -> None:
    async def test() -> None:
        deliveries = Deliveries(16 * MB)
        boxes = [Mailbox(deliveries) for _ in range(100)]
        for _ in range(100):
            for box in boxes:
                if box.room():
                    box.put(0, sound(SMALLEST // 2))
        assert deliveries.share() < LARGEST
        assert deliveries.held <= 16 * MB + len(boxes) * (SMALLEST + SMALLEST // 2 + EVENT_BYTES)
        for box in boxes:
            box.close()
        assert deliveries.held == 0
        assert deliveries.share() == min(LARGEST, 16 * MB // SHARE)

    within(test)


def test_no_item_is_overslept() -> None:
    """The engine's thread puts them in at any moment: before the reader waits, as it begins to, and while it waits."""
    count = 20_000

    def fill(box: Mailbox) -> None:
        for number in range(count):
            box.put(number, FinishEvent("stop", 1, 1))

    async def test() -> None:
        box = Mailbox(Deliveries())
        filled = asyncio.create_task(asyncio.to_thread(fill, box))
        async with asyncio.timeout(60):
            for number in range(count):
                assert (await box.get())[0] == number
            await filled

    within(test)


def test_an_item_that_comes_as_its_reader_begins_to_wait_is_not_overslept() -> None:
    async def test() -> None:
        box = Mailbox(Deliveries())

        class Late(asyncio.Event):
            def clear(self) -> None:
                super().clear()
                box.put(7, FinishEvent("stop", 1, 1))

        box._arrived = Late()
        async with asyncio.timeout(60):
            assert (await box.get())[0] == 7

    within(test)


def test_dropped_items_give_their_bytes_back_and_the_end_still_comes() -> None:
    """An answer that is cut for others' memory kept it until its connection ended."""

    async def test() -> None:
        deliveries = Deliveries()
        box = Mailbox(deliveries)
        for number in range(3):
            box.put(number, sound(100_000))
        assert (await box.get())[0] == 0
        box.drop()
        assert deliveries.held == 0
        reading = asyncio.create_task(box.get())
        await asyncio.sleep(0)
        box.put(9, Done())
        assert (await asyncio.wait_for(reading, 60))[0] == 9
        assert deliveries.held == 0

    within(test)


def test_a_reader_that_gave_up_once_is_woken_again() -> None:
    async def test() -> None:
        box = Mailbox(Deliveries())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(box.get(), 0.001)
        for number in range(2):
            reading = asyncio.create_task(box.get())
            await asyncio.sleep(0)
            box.put(number, FinishEvent("stop", 1, 1))
            assert (await asyncio.wait_for(reading, 60))[0] == number

    within(test)


def test_what_comes_after_the_end_is_dropped() -> None:
    async def test() -> None:
        deliveries = Deliveries()
        box = Mailbox(deliveries)
        box.close()
        box.put(0, sound(1000))
        box.close()
        assert deliveries.held == 0

    within(test)


def test_a_whole_answer_is_counted_until_it_is_sent_and_refused_beyond_the_limit() -> None:
    deliveries = Deliveries(4 * MB)
    first, second, third = (Kept(deliveries, Client(address=name)) for name in ("a", "b", "c"))
    first.add(MB)
    first.add(MB)
    second.add(3 * MB // 2)
    with pytest.raises(Busy, match="3 MB of answers wait for their readers, 0 MB of them for your key or site"):
        third.add(MB)
    third.release()
    second.release()
    first.release()
    first.release()
    assert deliveries.held == 0
    third.add(MB)
    assert deliveries.held == MB


@each(("megabytes", "limit"), [(250, 31.25), (512, 64), (1024, 128), (24_000, 128)])
def test_a_small_machine_keeps_fewer_bytes_of_whole_answers(megabytes: int, limit: float) -> None:
    deliveries = Deliveries()
    deliveries.fit(megabytes * MB)
    assert deliveries.limit == limit * MB


def test_whole_answers_that_one_client_does_not_read_leave_room_for_others() -> None:
    deliveries = Deliveries(4 * MB)
    for _ in range(2):
        Kept(deliveries, Client(address="a")).add(MB)
    with pytest.raises(Busy, match="and 2 MB for you"):
        Kept(deliveries, Client(address="a")).add(1)
    Kept(deliveries, Client(address="b")).add(2 * MB)


def test_clients_that_do_not_read_together_leave_a_short_answer_to_each_other() -> None:
    """A machine with two addresses is two clients."""
    deliveries = Deliveries(4 * MB)
    for name in ("a", "b"):
        Kept(deliveries, Client(address=name)).add(2 * MB)
    third = Kept(deliveries, Client(address="c"))
    for _ in range(OWN // 1024):
        third.add(1024)
    with pytest.raises(Busy, match="and 0 MB for you"):
        third.add(1)


def test_the_networks_of_one_key_leave_room_for_another_key() -> None:
    """Two of them kept 128 MB of answers, and the next key got none beyond ``OWN``."""
    deliveries = Deliveries(4 * MB)
    Kept(deliveries, Client("mine", "10.0.0.1")).add(2 * MB)
    second = Kept(deliveries, Client("mine", "10.0.0.2"))
    second.add(MB)
    with pytest.raises(Busy, match="3 MB of them for your key or site and 1 MB for you; the limits are 4, 3, 2 MB"):
        second.add(1)
    Kept(deliveries, Client("mine", "10.0.0.3")).add(OWN)
    Kept(deliveries, Client("other", "10.0.0.1")).add(MB - OWN)
    second.release()
    second.add(MB - OWN)


def test_streams_that_are_not_read_refuse_nobody_a_whole_answer() -> None:
    async def test() -> None:
        deliveries = Deliveries(4 * MB)
        boxes = [Mailbox(deliveries) for _ in range(100)]
        for box in boxes:
            while box.room():
                box.put(0, sound(SMALLEST))
        Kept(deliveries, Client(address="b")).add(2 * MB)
        for box in boxes:
            box.close()

    within(test)


def test_what_an_answer_needs_to_go_on_counts_until_its_mailbox_closes() -> None:
    """The latest rest counts, also as bytes of the answer's own request."""

    async def test() -> None:
        mine, deliveries = Own(), Deliveries(16 * MB)
        token = own.set(mine)
        box = Mailbox(deliveries)
        own.reset(token)
        for size in (5 * MB, 9 * MB, 2 * MB):
            assert box.rest(size)
            assert deliveries.held == mine.held == size
        assert deliveries.share() == Deliveries(16 * MB).share(), "it takes no room from readers"
        box.close()
        assert deliveries.held == mine.held == 0
        assert not box.rest(1), "nobody would give it back"

    within(test)


def test_answers_that_rest_have_a_common_limit() -> None:
    """Beyond it an answer must not rest, unless it needs little."""

    async def test() -> None:
        deliveries = Deliveries(16 * MB)
        boxes = [Mailbox(deliveries) for _ in range(3)]
        assert boxes[0].rest(9 * MB)
        assert not boxes[1].rest(8 * MB)
        assert boxes[1].rest(7 * MB)
        assert not boxes[0].rest(10 * MB), "it keeps what it had"
        assert boxes[2].rest(SMALLEST)
        assert deliveries.held == 16 * MB + SMALLEST
        boxes[0].close()
        assert boxes[1].rest(15 * MB)
        assert own.get().held == 0, "they belong to no request"
        for box in boxes:
            box.close()
        assert deliveries.held == 0

    within(test)
