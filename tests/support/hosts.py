"""The one suite that every host passes. A test class names its host and inherits the suite.

class TestThreadHost(HostContract):
    make = staticmethod(make_thread_host)     # spec, pressure, clock, idle_after -> host

The suite knows an engine by its spec alone and stops it at named pipes, so the engine may live in any process.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.contract import ask
from support.gates import PATIENCE_SECONDS, Clock, CountingGovernor, Mailbox, run
from support.server import until
from support.sound import speech

from edgeserve.clients import NOBODY, Client
from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import (
    Busy,
    Cancelled,
    EngineFailure,
    InvalidRequest,
    NotFound,
    NotSupported,
    ShuttingDown,
    SlowReader,
)
from edgeserve.jobs import Job
from edgeserve.messages import (
    LONG_CHARS,
    ChatRequest,
    DetectRequest,
    EmbedRequest,
    Event,
    FinishEvent,
    Message,
    Pcm,
    Request,
    RerankRequest,
    SlotEvent,
    SlotRequest,
    SpeakRequest,
    TextEvent,
    TextPart,
    TextRequest,
    TokenEvent,
    TranscribeRequest,
)
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import LONG_PATIENCE, PATIENCE, Host
from edgeserve.residency.rounds import Place
from edgeserve.residency.turns import REST_PATIENCE
from edgeserve.residency.work import Done, Work
from edgeserve.slots import SlotState
from edgeserve.units import MB

SERIAL, BATCH, PREPARING = "chat:FakeChat", "chat:FakeBatchChat", "chat:FakePreparingChat"
every = pytest.mark.parametrize("kind", [SERIAL, BATCH, PREPARING])
batches = pytest.mark.parametrize("kind", [BATCH, PREPARING])


class Pipe:
    """Stops a fake engine at one of its steps (its option ``hold``)."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        os.mkfifo(self._path)

    @contextlib.contextmanager
    def reached(self) -> Iterator[None]:
        """Entered once the engine waits at the step; on leaving, the engine goes on and never waits there again."""
        with self._path.open("wb"):
            try:
                yield
            finally:
                self._path.unlink()


class Asked:
    """One request through a gate, with its lease."""

    def __init__(
        self,
        gate: Gate,
        words: str | Request,
        room: Callable[[], bool] = lambda: True,
        client: Client = NOBODY,
        begun: Callable[[Request], None] = lambda request: None,
        spare: Callable[[], bool] = lambda: False,
    ) -> None:
        self._gate, self._box, self._client = gate, Mailbox(), client
        self.work = Work(ask(words) if isinstance(words, str) else words, self._emit, room, begun, place=Place(client))
        self.work.spare = spare
        gate.acquire(None, client)
        gate.submit(self.work)

    def _emit(self, item: Event | Done) -> None:
        if isinstance(item, Done):
            self._gate.release(self._client)
        self._box.items.put(item)

    def first(self) -> Event:
        event: Event = self._box.items.get(timeout=PATIENCE_SECONDS)
        return event

    def rest(self) -> list[Event]:
        """All events up to the end. Raises the error that ended the answer."""
        events, error = self._box.rest()
        if error is not None:
            raise error
        return events

    def text(self) -> str:
        return "".join(event.text for event in self.rest() if isinstance(event, TokenEvent))

    def quiet(self) -> bool:
        return self._box.items.empty()


class HostContract:
    """A host behind a gate, and behind the host a fake engine."""

    HOME_BYTES = 0
    """Memory that the engine's home takes beside it."""

    make: ClassVar[Callable[..., Host]]

    @pytest.fixture(autouse=True)
    def _stopped_at_the_end(self, tmp_path: Path) -> Iterator[None]:
        self.folder, self.clock, self.governor = tmp_path, Clock(), CountingGovernor()
        self.made: list[Gate] = []
        yield
        for gate in self.made:
            gate.stop()
            assert gate.rung is Rung.COLD
            assert (gate.leases, gate.work) == (0, ())
        assert self.governor.reserved == self.governor.released

    def gate(self, kind: str = BATCH, job: Job = "llm", idle_after: float = 0.3, **options: object) -> Gate:
        spec = ModelSpec(job, f"fake-{job}", f"edgeserve.engines.fake.{kind}", options=options | {"hold": self.folder})
        governor: Any = self.governor
        host = type(self).make(spec, governor, self.clock, idle_after)
        self.made.append(Gate(host, governor, queue_limit=20, clock=self.clock))
        return self.made[-1]

    def host(self, kind: str = BATCH, job: Job = "llm", **options: object) -> Host:
        return self.gate(kind, job, **options).host

    # Rungs

    @every
    def test_the_engine_climbs_and_steps_down_rung_by_rung(self, kind: str) -> None:
        host = self.host(kind)
        with host.hold() as held:
            assert held
            for climb, to in [
                (True, 1),
                (True, 2),
                (True, 2),
                (False, 1),
                (False, 1),
                (True, 2),
                (False, 0),
                (True, 2),
            ]:
                host.climb(Rung(to)) if climb else host.step_down(Rung(to))
                assert host.rung is Rung(to)
            host.close()
            assert host.rung is Rung.COLD

    def test_an_engine_that_fails_on_its_way_up_stays_below(self) -> None:
        host = self.host(fail_on="heat")
        with host.hold():
            with pytest.raises(EngineFailure, match="failed on heat"):
                host.climb(Rung.HOT)
            assert host.rung is Rung.WARM

    def test_an_engine_that_fails_to_step_down_says_so(self) -> None:
        host = self.host(fail_on="park")
        with host.hold():
            host.climb(Rung.HOT)
            with pytest.raises(EngineFailure, match="failed on park"):
                host.step_down(Rung.WARM)

    def test_a_failure_to_close_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        host = self.host(fail_on="close")
        with host.hold():
            host.climb(Rung.WARM)
            host.close()
        assert "fake-llm could not be closed" in caplog.text
        self.made.clear()  # such an engine is not cold at the end

    def test_one_thread_at_a_time_holds_the_engine(self) -> None:
        host, others = self.host(), list[bool]()

        def try_it() -> None:
            with host.hold(0) as held:
                others.append(held)

        with host.hold():
            on_a_thread(try_it)
        on_a_thread(try_it)
        assert others == [False, True]

    def test_who_maps_an_engine_waits_for_nobody_that_uses_it(self) -> None:
        host = self.host()
        with host.hold():
            mapping = threading.Thread(target=host.map, daemon=True)
            mapping.start()
            host.climb(Rung.WARM)
            mapping.join(10)
            assert not mapping.is_alive()
        assert host.rung is Rung.WARM

    # Figures and facts

    def test_the_figures_are_those_of_the_rung(self) -> None:
        host = self.host(mapped_mb=10, private_mb=70, request_mb=1)  # more than a worker's process takes itself
        assert (host.estimate().total, host.footprint().total) == (81 * MB + self.HOME_BYTES, 0)
        with host.hold():
            host.climb(Rung.HOT)
        assert (host.footprint().mapped, host.footprint().private) == (10 * MB, 70 * MB)
        assert host.context_tokens is None

    @every
    def test_a_thrifty_engine_sheds(self, kind: str) -> None:
        gate = self.gate(kind, prefix_cache_mb=3)
        assert Asked(gate, "word").text() == "word"
        assert gate.host.savings() == {"prefix_cache": 3 * MB}
        with gate.host.hold():
            assert gate.host.shed("prefix_cache", 2 * MB)
            assert gate.host.restore()
        assert gate.host.savings() == {"prefix_cache": MB}

    @every
    def test_a_thrifty_engine_learns_how_much_it_may_keep(self, kind: str) -> None:
        """Nobody needs to hold the engine for that."""
        gate = self.gate(kind, prefix_cache_mb=3)
        assert Asked(gate, "word").text() == "word"
        gate.keep(2 * MB)
        with gate.host.hold():
            assert gate.host.restore()  # a worker reports its figures
            assert gate.host.savings() == {"prefix_cache": 2 * MB}

    def test_an_engine_without_savings_has_nothing_to_shed(self) -> None:
        host = self.host("engine:FakeTextToSpeech", "tts")
        assert host.savings() == {}
        with host.hold():
            assert not host.shed("prefix_cache", MB)
            assert not host.restore()
            host.keep(MB)

    def test_facts_are_known_on_every_rung(self) -> None:
        assert self.host("engine:FakeTextToSpeech", "tts").voices() == ("tone", "hum")
        assert self.host("engine:FakeSpeechToText", "asr", languages=("en", "ja")).languages() == ("en", "ja")
        assert self.host().slots == 4
        assert self.host(SERIAL).slots == 1
        assert list(self.host().prefetch_files()) == []

    # Speech told from other sounds

    def test_speech_is_told_beside_an_answer_and_without_a_place(self) -> None:
        gate = self.gate("engine:FakeSpeechToText", "asr", detects=True)
        gate.preload()
        word = Pipe(self.folder, "word")
        asked = Asked(gate, TranscribeRequest(Pcm(speech(1))))
        with word.reached():
            found = gate.detect(DetectRequest(speech(1)[:2048] + bytes(2048)))
            assert found.chances == (1.0, 0.0)
            assert gate.detect(DetectRequest(bytes(2048), found.state)).state == (3).to_bytes(8)
            assert (gate.leases, len(gate.work)) == (1, 1)
        asked.rest()

    def test_a_cold_or_failing_detector_says_so(self) -> None:
        gate = self.gate("engine:FakeSpeechToText", "asr", detects=True, fail_on="detect")
        assert gate.host.detects
        with pytest.raises(EngineFailure, match="is cold"):
            gate.detect(DetectRequest(bytes(2048)))
        gate.preload()
        with pytest.raises(EngineFailure, match="failed on detect"):
            gate.detect(DetectRequest(bytes(2048)))
        assert gate.rung is Rung.HOT

    def test_an_engine_without_a_detector_says_so(self) -> None:
        gate = self.gate("engine:FakeSpeechToText", "asr")
        assert not gate.host.detects
        with pytest.raises(NotSupported, match="has no detector"):
            gate.detect(DetectRequest(bytes(2048)))

    def test_a_detection_is_a_use(self) -> None:
        gate = self.gate("engine:FakeSpeechToText", "asr", detects=True)
        gate.preload()
        gate.acquire(keep_alive=900.0)
        gate.release()
        self.clock.now += 50
        gate.detect(DetectRequest(bytes(2048)))
        assert gate.last_used == self.clock.now
        assert gate.keep_alive == 900.0  # as the request before asked

    @every
    def test_a_request_of_another_kind_is_refused_and_loads_nothing(self, kind: str) -> None:
        gate = self.gate(kind)
        with pytest.raises(NotSupported, match="fake-llm serves llm; it cannot speak"):
            gate.host.check_kind(SpeakRequest("hello"))
        gate.host.check_kind(ChatRequest(prompt="hello"))
        assert isinstance(run(gate, SpeakRequest("hello"))[1], NotSupported)
        assert gate.rung is Rung.COLD

    # Answers

    @every
    def test_an_answer_climbs_and_ends_with_its_last_event(self, kind: str) -> None:
        gate = self.gate(kind)
        assert Asked(gate, "one two").rest() == [TokenEvent("one"), TokenEvent(" two"), FinishEvent("stop", 2, 2)]
        assert gate.rung is Rung.HOT
        assert gate.host.healthy

    @every
    def test_answers_are_made_in_the_order_in_which_they_were_asked_for(self, kind: str) -> None:
        gate, pipe, ends = self.gate(kind, slots=1), Pipe(self.folder, "open"), list[int]()
        asked = [Asked(gate, "one two three") for _ in range(6)]
        for number, one in enumerate(asked):
            one.work.begun = lambda request, number=number: ends.append(number)  # type: ignore[misc]
        with pipe.reached():
            """All of them wait."""
        assert [one.text() for one in asked] == ["one two three"] * 6
        assert ends == list(range(6))

    @every
    def test_the_failure_of_one_answer_ends_that_answer(self, kind: str) -> None:
        gate, pipe = self.gate(kind, fail_word="bad"), Pipe(self.folder, "word")
        asked = [Asked(gate, words) for words in ("one two", "three bad four", "five six")]
        with pipe.reached():
            """All of them are under way, or wait."""
        assert asked[0].text() == "one two"
        with pytest.raises(EngineFailure, match="failed at the word 'bad'"):
            asked[1].rest()
        assert asked[2].text() == "five six"
        assert Asked(gate, "seven").text() == "seven"

    @batches
    def test_slots_are_looked_at_saved_and_restored(self, kind: str) -> None:
        gate = self.gate(kind, slots=2)
        assert gate.host.slot_states() == ()
        assert Asked(gate, "one two three").text() == "one two three"
        until(lambda: gate.host.slot_states() == (SlotState(tokens=3), SlotState()))
        assert run(gate, SlotRequest("save", 0, "mine", "salt")) == ([SlotEvent(3, 12)], None)
        assert run(gate, SlotRequest("erase", 0)) == ([SlotEvent(3)], None)
        assert isinstance(run(gate, SlotRequest("restore", 1, "mine", "other"))[1], NotFound)
        assert run(gate, SlotRequest("restore", 1, "mine", "salt")) == ([SlotEvent(3, 12)], None)
        until(lambda: gate.host.slot_states() == (SlotState(), SlotState(tokens=3)))

    @batches
    def test_a_busy_slot_is_seen_and_left_alone(self, kind: str) -> None:
        gate = self.gate(kind, slots=2, delay=0.002)
        answer = Asked(gate, "word " * 500)
        until(lambda: [one.busy for one in gate.host.slot_states()] == [True, False])
        assert isinstance(run(gate, SlotRequest("erase", 0))[1], Busy)
        gate.cancel(answer.work)
        with pytest.raises(Cancelled):
            answer.rest()
        until(lambda: not any(one.busy for one in gate.host.slot_states()))

    @every
    def test_texts_are_read_as_the_model_reads_them(self, kind: str) -> None:
        gate = self.gate(kind)
        assert run(gate, TextRequest(text="hi", add_special=True, pieces=True)) == (
            [TextEvent("", (1, 104, 105), (b"\x01", b"h", b"i"), 1024)],
            None,
        )
        assert run(gate, TextRequest(tokens=(104, 105))) == ([TextEvent("hi", (104, 105), (), 1024)], None)
        told = Message("user", (TextPart("hello"),))
        ((event,), error) = run(gate, TextRequest(chat=ChatRequest((told,))))
        assert (error, isinstance(event, TextEvent) and event.text) == (None, "hello")
        assert isinstance(run(gate, TextRequest(tokens=(-1,)))[1], InvalidRequest)

    def test_a_serial_engine_has_no_slots_to_look_at(self) -> None:
        gate = self.gate(SERIAL)
        assert Asked(gate, "one").text() == "one"
        assert gate.host.slot_states() == ()
        assert isinstance(run(gate, SlotRequest("save", 0, "mine"))[1], NotSupported)

    @batches
    def test_a_failing_step_ends_every_answer_and_closes_the_engine(self, kind: str) -> None:
        gate, pipe = self.gate(kind, fail_on="step"), Pipe(self.folder, "open")
        asked = [Asked(gate, "one two") for _ in range(3)]
        with pipe.reached():
            """All of them wait."""
        for one in asked:
            with pytest.raises(EngineFailure, match="failed on step"):
                one.rest()
        until(lambda: gate.rung is Rung.COLD)

    def test_requests_are_prepared_beside_the_answers_under_way(self) -> None:
        gate, pipe = self.gate(PREPARING), Pipe(self.folder, "word")
        first = Asked(gate, "one two")
        with pipe.reached(), pytest.raises(InvalidRequest, match="it is refused"):
            Asked(gate, "to be refused").rest()
        assert first.text() == "one two"

    def test_a_long_text_to_read_delays_the_preparation_of_no_other_request(self) -> None:
        gate, pipe = self.gate(PREPARING), Pipe(self.folder, "read")
        long = Asked(gate, TextRequest(text="word " * LONG_CHARS))
        with pipe.reached():
            assert Asked(gate, "one two").text() == "one two"
            with pytest.raises(InvalidRequest, match="it is refused"):
                Asked(gate, "to be refused").rest()
        assert isinstance(long.rest()[-1], TextEvent)

    def test_cancelled_while_a_long_text_is_read(self) -> None:
        gate, pipe = self.gate(PREPARING), Pipe(self.folder, "read")
        asked = Asked(gate, TextRequest(tokens=(1,) * (LONG_CHARS + 1)))
        with pipe.reached():
            self.cancelled_at_once(gate, asked)

    # Cancelled in each state

    def test_cancelled_while_it_is_prepared(self) -> None:
        gate, pipe = self.gate(PREPARING), Pipe(self.folder, "prepare")
        asked = Asked(gate, "word")
        with pipe.reached():
            self.cancelled_at_once(gate, asked)
        assert gate.rung is Rung.WARM

    @every
    def test_cancelled_while_it_waits(self, kind: str) -> None:
        gate, pipe = self.gate(kind, slots=1), Pipe(self.folder, "word")
        first, second = Asked(gate, "one two"), Asked(gate, "three")
        with pipe.reached():
            self.cancelled_at_once(gate, second)
        assert first.text() == "one two"

    @every
    def test_cancelled_while_the_engine_climbs(self, kind: str) -> None:
        gate, pipe = self.gate(kind), Pipe(self.folder, "heat")
        asked = Asked(gate, "word")
        with pipe.reached():
            gate.cancel(asked.work)
        with pytest.raises(Cancelled):
            asked.rest()

    @every
    def test_cancelled_while_it_is_answered(self, kind: str) -> None:
        gate, pipe = self.gate(kind), Pipe(self.folder, "word")
        asked, other = Asked(gate, "one two three"), Asked(gate, "four five")
        with pipe.reached():
            gate.cancel(asked.work)
        with pytest.raises(Cancelled):
            asked.rest()
        assert other.text() == "four five"

    @every
    def test_cancelled_while_it_is_paused(self, kind: str) -> None:
        gate = self.gate(kind)
        asked = Asked(gate, "one two three", lambda: False)
        assert asked.first() == TokenEvent("one")
        until(lambda: gate.host.stuck)
        gate.cancel(asked.work)
        with pytest.raises(Cancelled):
            asked.rest()
        assert Asked(gate, "next").text() == "next"

    @every
    def test_cancelled_after_its_end_nothing_happens(self, kind: str) -> None:
        gate = self.gate(kind)
        asked = Asked(gate, "word")
        assert asked.text() == "word"
        gate.cancel(asked.work)
        assert Asked(gate, "next").text() == "next"
        assert asked.quiet()

    def cancelled_at_once(self, gate: Gate, asked: Asked) -> None:
        gate.cancel(asked.work)
        with pytest.raises(Cancelled):
            asked.rest()

    # Back-pressure

    @every
    def test_an_answer_without_room_pauses_behind_an_event_and_others_go_on(self, kind: str) -> None:
        gate, room = self.gate(kind), threading.Event()
        slow = Asked(gate, "one two three", room.is_set)
        assert slow.first() == TokenEvent("one")
        until(lambda: gate.host.stuck)
        assert Asked(gate, "four five").text() == "four five"
        assert slow.quiet()
        room.set()
        gate.wake()
        assert slow.text() == " two three"

    @every
    def test_the_slowest_answer_is_known_by_its_time(self, kind: str) -> None:
        gate = self.gate(kind)
        slow = Asked(gate, "one two", lambda: False)
        assert slow.first() == TokenEvent("one")
        until(lambda: gate.host.stuck)
        assert gate.host.slowest(PATIENCE) is None
        self.clock.now += PATIENCE
        assert gate.host.slowest(PATIENCE) is slow.work
        gate.cancel(slow.work)

    @batches
    def test_a_paused_answer_gives_its_slot_to_a_request_that_waits(self, kind: str) -> None:
        gate = self.gate(kind, slots=1)
        slow = Asked(gate, "one two", lambda: False)
        assert slow.first() == TokenEvent("one")
        until(lambda: gate.host.stuck)
        other = Asked(gate, "three")
        self.clock.now += PATIENCE
        assert other.text() == "three"
        with pytest.raises(SlowReader, match="waited 10 s"):
            slow.rest()

    def test_answers_in_the_way_of_others_rest_at_each_part_and_end_whole(self) -> None:
        """A speech kept another model's transcription out for as long as it took: 49 s, and possibly an hour."""
        texts = tuple(f"text {number}" for number in range(20))
        for job, kind, request, parts in (
            ("tts", "engine:FakeTextToSpeech", SpeakRequest("One two three. " * 20), 20),
            ("asr", "engine:FakeSpeechToText", TranscribeRequest(Pcm(speech(8))), 8),
            ("llm", "chat:FakeChat", EmbedRequest(texts), 20),
            ("llm", "chat:FakeBatchChat", EmbedRequest(texts), 20),
            ("rerank", "rerank:FakeRerank", RerankRequest("text 3", texts), 20),
        ):
            gate = self.gate(kind, job)
            whole = Asked(gate, request).rest()
            begun, before, self.governor.waited_for = list[Request](), self.governor.reserved, True
            asked = Asked(gate, request, begun=begun.append)
            assert asked.rest() == whole
            assert (len(begun), asked.work.place.running) == (1, 0)
            assert self.governor.reserved - before == parts, "one for each part"
            self.governor.waited_for = False

    def test_an_unread_answer_in_the_way_goes_on_to_its_rest_and_waits_there_for_its_reader(self) -> None:
        """A listener who plays speech as it comes kept a transcription out for 15 to 23 s, part after part."""
        for job, kind, request in (
            ("tts", "engine:FakeTextToSpeech", SpeakRequest("One two three. " * 3)),
            ("asr", "engine:FakeSpeechToText", TranscribeRequest(Pcm(speech(3)))),
        ):
            gate, room = self.gate(kind, job), threading.Event()
            whole = Asked(gate, request).rest()
            unread = Asked(gate, request, room.is_set, spare=lambda: True)
            assert unread.first() == whole[0]
            until(lambda: gate.host.stuck)  # noqa: B023 - within this turn of the loop
            assert unread.quiet()
            before, self.governor.waited_for = self.governor.released, True
            gate.wake()
            until(lambda: self.governor.released > before)  # noqa: B023
            assert unread.quiet(), "a rest, and no event"
            assert Asked(gate, request).rest() == whole, "others are not kept waiting by the one at rest"
            self.governor.waited_for = False
            room.set()
            gate.wake()
            assert unread.rest() == whole[1:]

    def unread_at_rest(self) -> tuple[Gate, Asked]:
        """Speech that has come to rest, for another engine that waits, and whose reader has no room."""
        gate = self.gate("engine:FakeTextToSpeech", "tts")
        self.governor.waited_for = True
        unread = Asked(gate, SpeakRequest("One two three. " * 3), lambda: False, spare=lambda: True)
        unread.first()
        until(lambda: self.governor.released == self.governor.reserved == 1)
        return gate, unread

    def test_an_answer_at_rest_that_nobody_reads_ends_when_it_is_cancelled(self) -> None:
        gate, unread = self.unread_at_rest()
        gate.cancel(unread.work)
        with pytest.raises(Cancelled):
            unread.rest()

    def test_an_unread_answer_at_rest_does_not_hold_its_engine_up(self) -> None:
        gate, unread = self.unread_at_rest()
        self.clock.now += REST_PATIENCE - 1
        gate.cut_unread("its model was replaced")
        assert not unread.work.cancel.is_set()
        self.clock.now += 1
        gate.cut_unread("its model was replaced")
        with pytest.raises(SlowReader, match="60 s for its reader while its model was replaced"):
            unread.rest()

    def test_a_client_that_has_all_places_of_turns_leaves_a_newcomer_one(self) -> None:
        """One client with two long recordings kept all others out until one of them had ended."""
        gate = self.gate("engine:FakeTextToSpeech", "tts", slots=2, delay=0.001)
        ada, bob, cleo = (Client(address=f"192.0.2.{number}") for number in (1, 2, 3))
        short, long = SpeakRequest("One."), SpeakRequest("a. " * 100_000)
        begun = [Asked(gate, long, client=ada) for _ in range(3)]
        last = begun.pop()
        for asked in begun:
            asked.first()
        assert len(Asked(gate, short, client=bob).rest()) == 1
        begun.append(Asked(gate, long, client=bob))
        begun[-1].first()
        assert len(Asked(gate, short, client=cleo).rest()) == 1, "nor do two clients keep out a third"
        assert last.quiet(), "not beside others of its own client"
        for asked in (last, *begun):
            gate.cancel(asked.work)

    @batches
    def test_long_answers_in_all_slots_leave_a_newcomer_a_place(self, kind: str) -> None:
        """Six answers of 3,000 tokens delayed the first word for another client by 78 s."""
        gate = self.gate(kind, slots=2, beside=2, delay=0.001, context=20_000)
        ada, bob, cleo, dan = (Client(address=f"192.0.2.{number}") for number in range(1, 5))
        long = "a " * 20_000
        begun = [Asked(gate, long, client=ada) for _ in range(2)]
        waiting = [Asked(gate, long, client=ada)]
        for asked in begun:
            asked.first()
        assert Asked(gate, "one two", client=bob).text() == "one two"
        for client in (bob, cleo):
            begun.append(Asked(gate, long, client=client))
            begun[-1].first()
        waiting.append(Asked(gate, "three", client=dan))
        rounds = gate.host.rounds
        until(lambda: gate.host.rounds > rounds + 3)
        assert all(one.quiet() for one in waiting), "two beside the slots, and none of a client with an answer"
        gate.cancel(begun[2].work)
        assert waiting[1].text() == "three"
        assert waiting[0].quiet()
        for asked in (*waiting, *begun):
            gate.cancel(asked.work)

    @every
    def test_texts_to_embed_leave_a_newcomer_a_place(self, kind: str) -> None:
        """Each request embeds 2,048 texts and keeps a place for minutes: one client kept all others out."""
        gate = self.gate(kind, slots=2, delay=0.001)
        ada, bob, cleo = (Client(address=f"192.0.2.{number}") for number in (1, 2, 3))
        texts = EmbedRequest(("word",) * 20_000)
        begun = [Asked(gate, texts, client=ada) for _ in range(gate.host.slots)]
        waiting = Asked(gate, texts, client=ada)
        for asked in begun:
            asked.first()
        assert Asked(gate, "one two", client=bob).text() == "one two"
        begun.append(Asked(gate, texts, client=bob))
        begun[-1].first()
        assert Asked(gate, "three", client=cleo).text() == "three"
        assert waiting.quiet(), "not beside others of its own client"
        for asked in (waiting, *begun):
            gate.cancel(asked.work)

    def test_a_long_speech_leaves_a_newcomer_a_place(self) -> None:
        """262,144 characters take a small box an hour, in which nobody else heard anything."""
        gate = self.gate("engine:FakeTextToSpeech", "tts", delay=0.001)
        ada, bob = (Client(address=f"192.0.2.{number}") for number in (1, 2))
        long = [Asked(gate, SpeakRequest("a. " * 100_000), client=ada) for _ in range(2)]
        long[0].first()
        assert len(Asked(gate, SpeakRequest("One. Two."), client=bob).rest()) == 2
        assert long[1].quiet(), "not beside another of its own client"
        for asked in reversed(long):
            gate.cancel(asked.work)

    def test_speeches_that_began_beside_unread_ones_of_their_client_keep_no_other_one_out(self) -> None:
        """One client began nine unread, then read them all: another had 15 of 15 speeches refused with 503."""
        gate, read = self.gate("engine:FakeTextToSpeech", "tts", delay=0.001), threading.Event()
        ada, bob = (Client(address=f"192.0.2.{number}") for number in (1, 2))
        long = [Asked(gate, SpeakRequest("a. " * 100_000), read.is_set, ada) for _ in range(gate.queue_limit + 1)]
        for asked in long:
            asked.first()
        with pytest.raises(Busy):
            gate.acquire(None, ada)
        read.set()
        gate.wake()
        for asked in long:
            asked.first()
        assert len(Asked(gate, SpeakRequest("One. Two."), client=bob).rest()) == 2
        for asked in long:
            gate.cancel(asked.work)

    @every
    def test_answers_that_nobody_reads_give_the_engine_up(self, kind: str) -> None:
        gate = self.gate(kind)
        asked = [Asked(gate, "one two", lambda: False) for _ in range(2)]
        assert [one.first() for one in asked] == [TokenEvent("one")] * 2
        until(lambda: gate.host.stuck)
        self.clock.now += LONG_PATIENCE - 1
        gate.cut_all_unread()
        assert not gate.unread
        self.clock.now += 1
        assert gate.unread
        gate.cut_all_unread()
        for one in asked:
            with pytest.raises(SlowReader, match="waited 15 s for its reader while others needed its memory"):
                one.rest()
        until(lambda: not gate.unread)

    @batches
    def test_an_engine_that_one_reader_reads_is_not_given_up(self, kind: str) -> None:
        with self.unread_beside_another(kind) as (gate, unread):
            self.clock.now += LONG_PATIENCE
            gate.cut_all_unread()
            assert not gate.unread
        gate.cancel(unread.work)

    @batches
    def test_an_unread_answer_is_cut_for_the_next_engine_whoever_else_reads(self, kind: str) -> None:
        """Several clients that did not read held up the engine in place of this one until their connections ended."""
        with self.unread_beside_another(kind) as (gate, unread):
            self.clock.now += LONG_PATIENCE - 1
            gate.cut_unread("its model was replaced")
            assert not unread.work.cancel.is_set()
            self.clock.now += 1
            gate.cut_unread("its model was replaced")
        with pytest.raises(SlowReader, match="waited 15 s for its reader while its model was replaced"):
            unread.rest()

    @contextlib.contextmanager
    def unread_beside_another(self, kind: str) -> Iterator[tuple[Gate, Asked]]:
        """A gate with an unread answer, in the midst of another answer, which ends well afterwards."""
        gate = self.gate(kind)
        unread = Asked(gate, "one two", lambda: False)
        assert unread.first() == TokenEvent("one")
        until(lambda: gate.host.stuck)
        pipe = Pipe(self.folder, "word")
        other = Asked(gate, "three")
        with pipe.reached():
            yield gate, unread
        assert other.text() == "three"

    # Without a request

    @batches
    def test_idle_work_follows_the_last_answer(self, kind: str) -> None:
        gate = self.gate(kind, idle_after=0.0, idle_mb=3)
        assert Asked(gate, "word").text() == "word"
        until(lambda: gate.host.savings() == {"prefix_cache": 3 * MB})

    @batches
    def test_idle_work_gives_way_to_a_request(self, kind: str) -> None:
        gate, pipe = self.gate(kind, idle_after=0.0, idle_mb=10**9), Pipe(self.folder, "idle")
        assert Asked(gate, "word").text() == "word"
        with pipe.reached():
            asked = Asked(gate, "next")
        assert asked.text() == "next"

    def test_a_cold_engine_opens_in_a_bracket_of_the_governor(self) -> None:
        """It measures itself by the growth of the process, which what other clients send makes larger."""
        gate = self.gate(PREPARING)
        for _ in range(2):
            assert Asked(gate, "word").text() == "word"
        assert self.governor.opened == [gate.spec.name]

    @batches
    def test_idle_work_that_fails_closes_the_engine(self, kind: str) -> None:
        gate = self.gate(kind, idle_after=0.0, idle_mb=1, fail_on="idle")
        for _ in range(2):
            assert Asked(gate, "word").text() == "word"
            until(lambda: gate.rung is Rung.COLD)

    def test_idle_work_is_left_off_where_memory_is_short(self) -> None:
        gate, asked = self.gate(idle_after=0.0, idle_mb=3), threading.Event()

        @contextlib.contextmanager
        def optional_memory() -> Iterator[bool]:
            asked.set()
            yield False

        self.governor.optional_memory = optional_memory  # type: ignore[method-assign]
        assert Asked(gate, "word").text() == "word"
        assert asked.wait(10)
        gate.host.call(lambda: None).result(10)
        assert gate.host.savings() == {"prefix_cache": 0}

    def test_a_call_runs_in_turn_and_tells_its_error(self) -> None:
        gate, pipe, done = self.gate(), Pipe(self.folder, "word"), list[str]()
        asked = Asked(gate, "word")

        def fail() -> None:
            raise ValueError("no")

        with pipe.reached():
            calls = [gate.host.call(lambda: done.append("called")), gate.host.call(fail)]
            assert done == []
        with pytest.raises(ValueError, match="no"):
            calls[1].result(10)
        assert done == ["called"]
        assert asked.text() == "word"

    @every
    def test_stop_ends_the_work_that_runs_and_the_work_that_waits(self, kind: str) -> None:
        gate, pipe = self.gate(kind, slots=1), Pipe(self.folder, "word")
        first, second = Asked(gate, "one two three"), Asked(gate, "four")
        with pipe.reached():
            stopping = threading.Thread(target=gate.stop)
            stopping.start()
            with pytest.raises(ShuttingDown):
                second.rest()
        with pytest.raises(ShuttingDown):
            first.rest()
        stopping.join(10)
        assert gate.rung is Rung.COLD


def on_a_thread(task: Callable[[], None]) -> None:
    thread = threading.Thread(target=task)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
