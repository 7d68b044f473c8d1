"""The answers under way, one by one."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from support.cases import each
from support.contract import ask
from support.gates import Clock, Mailbox

from edgeserve.clients import Client
from edgeserve.errors import MemoryPressure
from edgeserve.hosts.runs import CHECK_EVERY, MOST_KEPT, Runs
from edgeserve.messages import AudioEvent, ReadEvent, Rest, SpeakRequest, TokenEvent
from edgeserve.residency.rounds import Place
from edgeserve.residency.work import Admitted, Work, ignore

WORD = TokenEvent("word")


def nothing() -> None: ...


def add(
    runs: Runs, answer: Generator[Any, None, None], room: Callable[[], bool] = lambda: True
) -> tuple[Mailbox, list[str]]:
    """A run; the list says "freed" once its memory has been given back."""
    box, freed = Mailbox(), list[str]()
    admitted = Admitted(box.work(ask("word")), 0.0)
    admitted.work.room = room
    admitted.held.callback(freed.append, "freed")
    runs.add(admitted, answer)
    return box, freed


def test_an_answer_goes_on_to_its_next_step_and_gives_its_memory_back_at_its_end() -> None:
    def answer() -> Generator[Any, None, None]:
        yield WORD
        yield None
        yield WORD

    runs = Runs(nothing, Clock())
    box, freed = add(runs, answer())
    assert runs.advance() == ([], True)
    assert (box.items.qsize(), len(runs), freed) == (1, 1, [])
    ended, stepping = runs.advance()
    assert ([one.error for one in ended], stepping) == ([None], False)
    assert (box.items.qsize(), len(runs), freed) == (2, 0, ["freed"])


def test_the_pressure_is_checked_between_events_and_ends_the_answer_that_finds_it() -> None:
    def critical() -> None:
        raise MemoryPressure("critical")

    runs = Runs(critical, Clock())
    box, freed = add(runs, (WORD for _ in range(100)))
    (ended,), _ = runs.advance()
    assert isinstance(ended.error, MemoryPressure)
    assert (box.items.qsize(), freed) == (CHECK_EVERY, ["freed"])


@each(
    ("clients", "waiting", "paused", "long", "ended"),
    [
        ("abb", "aa", "", None, 2),
        ("abb", "", "", 1, 1),
        ("bab", "", "", None, 0),
        ("aab", "", "", None, 0),
        ("ab", "", "", None, 0),
        ("ab", "b", "a", None, 1),
        ("ab", "", "b", None, 1),
        ("ab", "", "", 1, 1),
        ("abc", "", "b", 2, 1),
        ("aabb", "", "", None, 0),
        ("abbccc", "", "b", 0, 5),
    ],
)
def test_at_critical_the_longest_answer_of_the_client_with_most_ends(
    clients: str, waiting: str, paused: str, long: int | None, ended: int
) -> None:
    """The answer ended that found it, also where another client had many, or had others that waited."""
    left = 1

    def critical() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise MemoryPressure("critical")

    runs = Runs(critical, Clock())
    works, others = list[Work](), [Work(ask("word"), ignore, place=Place(Client(address=one))) for one in waiting]
    for one in clients:
        add(runs, (WORD for _ in range(CHECK_EVERY + 1)))
        works.append(list(runs)[-1].work)
        works[-1].place, works[-1].peers = Place(Client(address=one)), lambda: [*works, *others]
        list(runs)[-1].paused = 0.0 if one in paused else None
    if long is not None:
        list(runs)[long].events = 10 * CHECK_EVERY
    done = [one.admitted.work for one in runs.advance()[0] if one.error is not None]
    assert [*done, *(one for one in works if isinstance(one.reason, MemoryPressure))] == [works[ended]]


def test_few_keys_are_remembered_of_many_that_have_gone() -> None:
    """Each of 2,000 left an entry while an answer waited that had had more time than they."""
    clock = Clock()

    def answer(seconds: int, more: int = 0) -> Generator[Any, None, None]:
        clock.now += seconds
        yield from [None] * more

    def come_and_go(numbers: range) -> None:
        for number in numbers:
            add(runs, answer(1))
            list(runs)[-1].work.place = Place(Client(key=f"key {number}"))
            while len(runs) > 1:
                runs.advance_one()

    runs = Runs(nothing, clock)
    add(runs, answer(10_000, 1))
    runs.advance_one()
    come_and_go(range(MOST_KEPT))
    tracemalloc.start()
    try:
        come_and_go(range(MOST_KEPT, 2000))
        assert tracemalloc.get_traced_memory()[0] < 128 << 10
    finally:
        tracemalloc.stop()


def test_an_answer_that_cannot_be_closed_gives_its_memory_back(caplog: pytest.LogCaptureFixture) -> None:
    def answer() -> Generator[Any, None, None]:
        try:
            yield None
        finally:
            raise OverflowError("while it was closed")

    runs = Runs(nothing, Clock())
    _, freed = add(runs, answer())
    runs.advance()
    (ended,) = runs.end_all(ValueError("the step failed"))
    assert isinstance(ended.error, ValueError)
    assert freed == ["freed"]
    assert "an answer could not be closed" in caplog.text


def test_runs_are_stuck_when_every_one_waits_for_its_reader() -> None:
    clock = Clock()
    runs = Runs(nothing, clock)
    assert not runs.stuck
    add(runs, (WORD for _ in range(9)), lambda: False)
    add(runs, (None for _ in range(9)))
    runs.advance()
    assert (runs.paused, runs.stuck) == (1, False)
    slow, other = runs
    clock.now += 5
    assert runs.slowest(5) is slow.work
    assert runs.slowest(6) is None
    other.work.cancel.set()
    runs.end_all(ValueError("no"))
    assert len(runs) == 0


def test_runs_are_unread_when_every_one_has_waited_for_long() -> None:
    clock, reads = Clock(), [False, False]
    runs = Runs(nothing, clock)
    assert runs.all_unread(0) == ()
    for at in range(2):
        add(runs, (WORD for _ in range(9)), lambda at=at: reads[at])  # type: ignore[misc]
        runs.advance()
        clock.now += 5
    assert [len(runs.all_unread(seconds)) for seconds in (0, 5, 6)] == [2, 2, 0]
    assert [len(runs.unread(seconds)) for seconds in (0, 5, 6, 10, 11)] == [2, 2, 1, 1, 0]
    reads[0] = True
    assert len(runs.unread(0)) == 1
    assert runs.all_unread(0) == ()


def test_an_answer_may_go_on_while_another_thread_looks_for_the_slowest() -> None:
    class GoesOn(Runs):
        def __iter__(self) -> Iterator[Any]:
            looks = iter([5.0, None, None])

            class Resumed:
                work = answer
                paused = property(lambda self: next(looks))

            return iter([Resumed()])

    answer = Work(SpeakRequest("one"), lambda item: None, lambda: False)
    assert GoesOn(nothing, Clock(100.0)).slowest(10) is answer


def test_an_answer_that_has_room_again_waits_for_the_engine_and_for_no_reader() -> None:
    """It has its turn behind those of others, which may take long: a reader that had read all was cut as slow."""
    read, clock = threading.Event(), Clock()
    runs = Runs(nothing, clock)
    for room in (read.is_set, lambda: True):
        add(runs, (WORD for _ in range(9)), room)
    paused, _ = runs
    runs.advance_one()
    clock.now += 5
    assert runs.slowest(5) is paused.work
    read.set()
    assert runs.slowest(0) is None
    paused.work.cancel.set()
    assert runs.slowest(5) is paused.work


@each(("passes", "heard"), [(False, []), (True, [ReadEvent()])])
def test_a_prompt_that_was_read_lets_the_next_one_begin_and_is_told_to_no_reader(
    passes: bool, heard: list[ReadEvent]
) -> None:
    runs = Runs(nothing, Clock())
    runs.passes_all = passes
    box, _ = add(runs, (event for event in (ReadEvent(), None)))
    (run,) = runs
    assert runs.advance() == ([], True)
    assert run.work.told
    assert [box.items.get() for _ in range(box.items.qsize())] == heard


@each(
    ("spare", "waited_for", "heard"),
    [(False, True, 1), (True, False, 1), (True, True, 3)],
)
def test_an_answer_goes_on_without_room_to_its_rest_alone_and_for_others(
    spare: bool, waited_for: bool, heard: int
) -> None:
    def speech() -> Generator[Any, None, None]:
        for number in range(1, 9):
            yield from [AudioEvent(b"sound", 24_000)] * 3
            yield Rest(number)

    for advance in ("advance", "advance_one"):
        runs = Runs(nothing, Clock(), lambda: waited_for)
        box, freed = add(runs, speech(), lambda: False)
        (run,) = runs
        run.work.request, run.work.spare = SpeakRequest("word"), lambda: spare
        for _ in range(5):
            getattr(runs, advance)()
        assert (box.items.qsize(), freed) == (heard, ["freed"] if heard > 1 else [])


def test_an_answer_that_does_not_rest_goes_on_without_room_once_until_its_reader_has_room() -> None:
    """At 17 kB a second a reader of log probabilities held another engine's memory for minutes."""
    runs, may = Runs(nothing, Clock(), lambda: True), {"room": False, "spare": True}
    box, _ = add(runs, (WORD for _ in range(200)), lambda: may["room"])
    (run,) = runs
    run.work.spare = lambda: may["spare"] and box.items.qsize() % 40 != 0
    heard = []
    for room, spare in ((False, True), (False, True), (True, False), (False, True)):
        may |= {"room": room, "spare": spare}
        runs.advance()
        heard.append((box.items.qsize(), run.blocked))
    assert heard == [(40, True), (40, True), (200, False), (200, False)]


@each(("waited_for", "speaks", "unread"), [(True, False, True), (False, False, False), (True, True, False)])
def test_pauses_of_an_answer_that_does_not_rest_add_up_while_others_wait(
    waited_for: bool, speaks: bool, unread: bool
) -> None:
    """A reader of 18 kB a second reads half a scarce mailbox within the patience of others, time and again."""
    clock, may = Clock(), {"room": True}

    def words() -> Generator[Any, None, None]:
        for _ in range(40):
            yield from [WORD] * 10
            may["room"] = False
            yield WORD

    runs = Runs(nothing, clock, lambda: waited_for)
    box, _ = add(runs, words(), lambda: may["room"])
    (run,) = runs
    run.work.request = SpeakRequest("word") if speaks else run.work.request
    for number in range(1, 3):
        may["room"] = True
        runs.advance()
        assert (box.items.qsize(), run.blocked) == (11 * number, True)
        assert not runs.all_unread(15.0)
        clock.now += 14.0
    assert bool(runs.all_unread(15.0)) is unread
