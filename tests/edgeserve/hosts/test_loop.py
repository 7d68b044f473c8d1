"""The two loops: the answers that may begin, the steps, and the failures of the engine."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.contract import ask
from support.gates import Clock, Mailbox, fake_spec

from edgeserve.clients import Client, Idle
from edgeserve.engine import Cancel
from edgeserve.engines.fake.chat import FakeBatchChat, FakeChat
from edgeserve.engines.fake.engine import FakeSpeechToText, FakeTextToSpeech
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.hosts.loop import BatchLoop, Loop, SerialLoop
from edgeserve.hosts.runs import MOST_BESIDE, Runs
from edgeserve.messages import (
    AudioEvent,
    EmbeddingEvent,
    EmbedRequest,
    Pcm,
    SpeakRequest,
    TokenEvent,
    TranscribeRequest,
)
from edgeserve.residency.rounds import Place
from edgeserve.residency.work import Admitted, Work


def hot(engine: Any) -> Any:
    engine.open()
    engine.heat()
    return engine


def serial(engine: Any = None, clock: Callable[[], float] | None = None, **options: object) -> SerialLoop:
    return SerialLoop(engine or hot(FakeChat(fake_spec(**options))), Runs(lambda: None, clock or Clock()))


def batch(engine: Any = None, **options: object) -> BatchLoop:
    return BatchLoop(engine or hot(FakeBatchChat(fake_spec(**options))), Runs(lambda: None, Clock()))


def begin(loop: Loop, words: str, room: Callable[[], bool] = lambda: True) -> Mailbox:
    box = Mailbox()
    admitted = Admitted(box.work(ask(words)), 0.0)
    admitted.work.room = room
    loop.begin(admitted)
    return box


def text(box: Mailbox) -> str:
    items = [box.items.get_nowait() for _ in range(box.items.qsize())]
    return "".join(item.text for item in items if isinstance(item, TokenEvent))


def test_a_serial_loop_gives_the_place_of_a_paused_answer_to_the_next() -> None:
    loop = serial()
    assert (loop.slots, loop.free) == (1, True)
    begin(loop, "one two", lambda: False)
    assert not loop.free
    for _ in range(2):
        loop.turn()
    assert loop.free
    assert not loop.crowded, "no answer need be cut for it"
    other = begin(loop, "three")
    assert not loop.free
    while len(loop.runs) > 1:
        loop.turn()
    assert text(other) == "three"


def test_answers_of_a_parallel_engine_take_turns_in_a_serial_loop() -> None:
    loop = serial(hot(FakeTextToSpeech(fake_spec("tts", slots=2))))
    boxes = [Mailbox(), Mailbox()]
    for box, words in zip(boxes, ("One. Two. Three. Four.", "Five."), strict=True):
        assert loop.free
        loop.begin(Admitted(box.work(SpeakRequest(words)), 0.0))
    assert (loop.slots, loop.free) == (2, False)
    while len(loop.runs) == 2:
        loop.turn()
    assert [box.items.qsize() for box in boxes] == [2, 1], "the short answer does not wait for the end of the long one"
    while loop.runs:
        loop.turn()
    assert boxes[0].items.qsize() == 4


@each(("slots", "beside"), [(1, 0), (1, 4), (4, 1), (4, 4)])
def test_a_batch_has_places_beside_its_slots_for_newcomers(slots: int, beside: int) -> None:
    """The last half of them, and the only one, is for keys with nothing under way."""
    loop = batch(slots=slots, beside=beside)
    for number in range(slots + beside):
        last = number >= slots + beside // 2
        assert (loop.free, loop.spare) == (number < slots, Idle.KEY if last else Idle.CLIENT)
        begin(loop, "one two")
    assert (loop.free, loop.spare) == (False, None)


def test_beside_texts_to_embed_a_newcomer_may_begin() -> None:
    """A batch's other answers keep a slot each; those that go text by text leave theirs behind each text."""
    texts = EmbedRequest(("one", "two", "three"))
    for loop in (serial(), batch(slots=2)):
        for _ in range(loop.slots):
            loop.begin(Admitted(Mailbox().work(texts), 0.0))
        assert (loop.free, loop.spare) == (False, Idle.CLIENT)
    for kept in range(1, 3):
        begin(loop, "one two")
        assert loop.spare is (Idle.CLIENT if kept < 2 else None)
    loop = batch(slots=2)
    for number in range(loop.slots + MOST_BESIDE):
        assert loop.spare is (Idle.CLIENT if number < loop.slots + MOST_BESIDE // 2 else Idle.KEY)
        loop.begin(Admitted(Mailbox().work(texts), 0.0))
    assert not loop.spare


class SlowTexts:
    """Each text of a list takes so many seconds."""

    beside, starved, slots = 0, False, 1

    def __init__(self, clock: Clock) -> None:
        self.spec, self.clock = fake_spec("embedding"), clock

    def run(self, request: EmbedRequest, cancel: Cancel, prepared: object = None) -> Iterator[EmbeddingEvent | None]:
        for seconds in request.inputs:
            self.clock.now += float(str(seconds))
            yield EmbeddingEvent(b"", 1)
            yield None

    embed = run

    def step(self) -> None: ...


@pytest.mark.parametrize("kind", [SerialLoop, BatchLoop])
def test_a_short_text_waits_for_one_long_text_of_another_key_at_most(kind: Any) -> None:
    """It waited for three: the one under way, another one before its own, and a third one before its end."""
    clock = Clock()
    loop: Loop = kind(SlowTexts(clock), Runs(lambda: None, clock))

    def asked(key: str, *seconds: str) -> Mailbox:
        box = Mailbox()
        admitted = Admitted(box.work(EmbedRequest(seconds)), 0.0)
        admitted.work.place = Place(Client(key))
        loop.begin(admitted)
        return box

    asked("a", "9", "9", "9")
    loop.turn()
    began = clock.now
    asked("b", "0.1")
    ended: list[Any] = []
    while not ended:
        ended = loop.turn()
    assert ended[0].admitted.work.place.client.key == "b"
    assert clock.now - began <= 9.1


class TwoSlots(FakeSpeechToText):
    slots = 2


SOUND = TranscribeRequest(Pcm(bytes(4 * 64_000)))
LONG: dict[str, tuple[Any, Any]] = {
    "speech": (FakeTextToSpeech(fake_spec("tts")), SpeakRequest("One. Two.")),
    "speech, two slots": (FakeTextToSpeech(fake_spec("tts", slots=2)), SpeakRequest("One. Two.")),
    "transcription": (FakeSpeechToText(fake_spec("asr")), SOUND),
    "transcription, two slots": (TwoSlots(fake_spec("asr")), SOUND),
}


@pytest.mark.parametrize("name", LONG)
def test_beside_long_sound_newcomers_may_begin(name: str) -> None:
    """Two recordings of two hours would else keep everybody out until one of them ends."""
    engine, request = LONG[name]
    loop = serial(hot(engine))
    for number in range(loop.slots + MOST_BESIDE):
        last = number >= loop.slots + MOST_BESIDE // 2
        assert (loop.free, loop.spare) == (number < loop.slots, Idle.KEY if last else Idle.CLIENT)
        work = Mailbox().work(request)
        work.place = Place(Client(address=f"192.0.2.{number}"))
        loop.begin(Admitted(work, 0.0))
    assert (loop.free, loop.spare) == (False, None)


def test_a_short_recording_ends_before_a_long_one_of_another_client() -> None:
    loop = serial(hot(FakeSpeechToText(fake_spec("asr"))))
    boxes = [Mailbox(), Mailbox()]
    for number, (box, seconds) in enumerate(zip(boxes, (600, 3), strict=True)):
        work = box.work(TranscribeRequest(Pcm(b"\1" * (64_000 * seconds))))
        work.place = Place(Client(address=f"192.0.2.{number}"))
        assert loop.spare
        loop.begin(Admitted(work, 0.0))
    while len(loop.runs) == 2:
        loop.turn()
    assert (boxes[1].items.qsize(), boxes[0].items.qsize() < 10) == (4, True)


def test_a_batch_loop_keeps_the_slot_of_a_paused_answer() -> None:
    loop = batch(slots=2)
    begin(loop, "one two", lambda: False)
    other = begin(loop, "three four")
    assert (loop.slots, loop.free, loop.crowded) == (2, False, False)
    while len(loop.runs) > 1:
        loop.turn()
    assert text(other) == "three four"
    assert (loop.free, loop.crowded, loop.runs.stuck) == (True, True, True)


def test_a_starving_engine_starves_the_loop_while_an_answer_is_paused() -> None:
    class Starving(FakeBatchChat):
        starved = True

    loop = batch(hot(Starving(fake_spec())))
    assert not loop.starved
    begin(loop, "one two", lambda: False)
    loop.turn()
    loop.turn()
    assert loop.starved
    assert not serial().starved


def test_a_step_is_taken_once_for_all_answers() -> None:
    engine, steps = hot(FakeBatchChat(fake_spec())), list[int]()
    engine.on_work = lambda: steps.append(1)
    loop = batch(engine)
    boxes = [begin(loop, "one two three") for _ in range(3)]
    while loop.runs:
        loop.turn()
    assert [text(box) for box in boxes] == ["one two three"] * 3
    assert len(steps) == 3


def counted() -> tuple[BatchLoop, list[int]]:
    """A loop of two slots, and a number for each step of its engine."""
    engine, steps = hot(FakeBatchChat(fake_spec(slots=2))), list[int]()
    engine.on_work = lambda: steps.append(1)
    return batch(engine), steps


def test_an_answer_that_has_ended_waits_for_no_step_of_another() -> None:
    """Its last token was out, but its client waited 3.5 s for the end: the step read a piece of another's prompt."""
    loop, steps = counted()
    short, long = begin(loop, "one"), begin(loop, "one two three four")
    before, ended = 0, loop.turn()
    while not ended:
        before, ended = len(steps), loop.turn()
    assert text(short) == "one"
    assert (len(loop.runs), len(steps)) == (1, before), "the engine works for the other before this end is known"
    loop.turn()
    assert len(steps) == before + 1
    assert text(long)


def test_answers_that_end_in_each_turn_leave_another_every_second_step() -> None:
    loop, steps = counted()
    begin(loop, "word " * 50)
    for _ in range(20):
        begin(loop, "")
        loop.turn()
    assert len(loop.runs) == 1
    assert len(steps) >= 9


def test_a_failing_step_ends_all_answers_and_fails_the_loop() -> None:
    loop = batch(fail_on="step")
    for _ in range(3):
        begin(loop, "one")
    ended = loop.turn()
    assert [type(one.error) for one in ended] == [EngineFailure] * 3
    assert (loop.failed, len(loop.runs)) == (True, 0)


@pytest.mark.parametrize(
    ("error", "failed"), [(EngineFailure("broken"), True), (OSError("gone"), True), (InvalidRequest("no"), False)]
)
def test_a_serial_engine_fails_with_an_answer_unless_it_refused_the_request(error: Exception, failed: bool) -> None:
    class Failing(FakeChat):
        def chat(self, request: Any, cancel: Cancel) -> Iterator[Any]:
            raise error
            yield

    loop = serial(hot(Failing(fake_spec())))
    begin(loop, "one")
    (ended,) = loop.turn()
    assert ended.error is error
    assert loop.failed is failed


def test_a_batching_engine_does_not_fail_with_an_answer() -> None:
    loop = batch(fail_word="bad")
    begin(loop, "bad")
    begin(loop, "one two")
    loop.turn()
    (ended,) = loop.turn()
    assert isinstance(ended.error, EngineFailure)
    assert (loop.failed, len(loop.runs)) == (False, 1)


class Mumbler(FakeTextToSpeech):
    """Works without an event for each full stop."""

    def speak(self, request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent | None]:
        for char in request.text:
            yield None if char == "." else AudioEvent(char.encode(), 24_000)


def test_work_without_an_event_gives_others_their_turn() -> None:
    """Also with a serial engine: a text without a word in it kept such an engine for minutes."""
    loop, boxes = serial(Mumbler(fake_spec("tts"))), (Mailbox(), Mailbox())
    for words, box in zip(("." * 1_000, "ab"), boxes, strict=True):
        loop.begin(Admitted(box.work(SpeakRequest(words)), 0.0))
    ended = [one for _ in range(6) for one in loop.turn()]
    assert [(one.admitted.work.request, one.error) for one in ended] == [(SpeakRequest("ab"), None)]
    assert boxes[0].items.empty()  # the loop passes on events alone
    assert boxes[1].items.qsize() == 2


class Slow(FakeTextToSpeech):
    """Takes a second for each digit of a text: ``9``."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(fake_spec("tts"))
        self._clock = clock

    def speak(self, request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent | None]:
        for digit in request.text:
            if cancel.is_set():
                return
            self._clock.now += int(digit)
            yield AudioEvent(digit.encode(), 24_000)


def saying(loop: Loop, *texts: str, key: str = "") -> list[Work]:
    """Each for another client, unless they have one ``key``."""
    works = [Mailbox().work(SpeakRequest(text)) for text in texts]
    for work in works:
        work.place = Place(Client(key or f"key {id(work)}"))
        loop.begin(Admitted(work, 0.0))
    return works


@each("longs, turns", [(1, 7), (4, 7), (4, 9)])
def test_a_short_answer_ends_within_the_time_of_one_step_of_long_ones(longs: int, turns: int) -> None:
    """Speech of "Hi." waited for three steps of each long one: two to begin and to speak, one to end."""
    clock = Clock()
    loop = serial(Slow(clock), clock)
    saying(loop, *["9" * 50] * longs)
    for _ in range(turns):
        loop.turn()
    (short,) = saying(loop, "111")
    began = clock.now
    loop.turn()
    for run in loop.runs:
        if run.work is not short:
            run.work.cancel.set()
    saying(loop, *["9" * 50] * 3)  # newcomers, who have had no time at all
    while short in [run.work for run in loop.runs]:
        loop.turn()
    assert clock.now - began <= 9 + 3


@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.data())
def test_answers_have_equal_time_up_to_a_step_each(steps: list[int], data: st.DataObject) -> None:
    """An answer that pauses saves up no time."""
    clock, paused, had = Clock(), set[Work](), Counter[Work]()
    loop = serial(Slow(clock), clock)
    works = saying(loop, *(str(step) * 60 for step in steps))
    for work in works:
        work.room = functools.partial(lambda work: work not in paused, work)
    for _ in range(50):
        before = {run.work: run.events for run in loop.runs}
        for run in loop.runs:
            had[run.work] += 0
        loop.turn()
        for run in loop.runs:
            had[run.work] += (run.events - before[run.work]) * steps[works.index(run.work)]
        able = [had[run.work] for run in loop.runs if run.work not in paused]
        assert not able or max(able) - min(able) <= 18
        if change := data.draw(st.sampled_from([None, None, None, *works])):
            paused ^= {change}
            had.clear()


def time_of(loop: Loop, long: Work) -> int:
    return sum(run.events for run in loop.runs if run.work is long)


def test_short_answers_one_after_the_other_leave_a_long_one_its_part() -> None:
    """Each was the newest, and went ahead of the long one of another key, which had not one step in 1,000 s."""
    clock = Clock()
    loop, began = serial(Slow(clock), clock), clock.now
    (long,) = saying(loop, "5" * 100)
    for _ in range(100):
        if len(loop.runs) == 1:
            saying(loop, "1", key="short")
        loop.turn()
    assert 0.4 < 5 * time_of(loop, long) / (clock.now - began) < 0.6


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 9))
def test_many_answers_of_one_key_have_one_part(steps: list[int], step: int) -> None:
    """They begin where unread ones leave the place, and go on together once these are read."""
    clock = Clock()
    loop, began = serial(Slow(clock), clock), clock.now
    (alone,) = saying(loop, str(step) * 200)
    saying(loop, *(str(one) * 200 for one in steps), key="many")
    for _ in range(80):
        loop.turn()
        assert abs(clock.now - began - 2 * step * time_of(loop, alone)) <= 2 * 18


def test_a_cancelled_answer_takes_no_turn_from_others() -> None:
    """Its time became that of all others, so that a long answer went ahead of a short one."""
    clock = Clock()
    loop = serial(Slow(clock), clock)
    saying(loop, *["9" * 50] * 2)
    for _ in range(3):
        loop.turn()
    (short,) = saying(loop, "1")
    next(run.work for run in loop.runs if run.events == 2).cancel.set()
    began = clock.now
    while short in [run.work for run in loop.runs]:
        loop.turn()
    assert clock.now - began <= 1
