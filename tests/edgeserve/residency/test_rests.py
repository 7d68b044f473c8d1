"""Long answers of engines that do not fit together: each rests while others have their turn, and ends whole."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.cases import each
from support.contract import told
from support.gates import FAKES, PATIENCE_SECONDS, Mailbox, engine_of, gate_of
from support.memory import World
from support.server import until

from edgeserve.clients import Client
from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import Busy, Cancelled, ShuttingDown, SlowReader
from edgeserve.jobs import Job
from edgeserve.messages import DiarizeRequest, EmbedRequest, Pcm, Request, SpeakRequest, TranscribeRequest
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import LONG_PATIENCE
from edgeserve.residency.rounds import Place
from edgeserve.residency.turns import REST_PATIENCE
from edgeserve.residency.work import METHODS, Done, Work
from edgeserve.units import MB

ADA, BOB = (Client(address=f"192.0.2.{number}") for number in (1, 2))
SPEECH = SpeakRequest("One two. " * 40)
SOUND = TranscribeRequest(Pcm(b"\0\0\0\x3f" * 16_000 * 40))
VOICES = DiarizeRequest(Pcm((b"\0\0\0\x3f" * 16_000 + b"\0\0\x80\x3f" * 16_000) * 20), (Pcm(b"\0\0\x80\x3f"),))
TEXTS = EmbedRequest(tuple(f"text {number}" for number in range(40)))
REQUESTS: dict[str, Request] = {"tts": SPEECH, "asr": SOUND, "embedding": TEXTS, "speaker": VOICES}
HOT = 2.0
"""Seconds for which a model stays hot while it has work."""
PART = 0.5
"""Seconds of each part of an answer."""


class Box(World):
    """A machine with room for one of its engines. Each part of an answer moves the clock.

    ``request``: MB of each answer.
    """

    def __init__(self, request: int = 5) -> None:
        super().__init__(100)
        self.request = request
        self.gates: list[Gate] = []
        self.go = threading.Event()
        """Until it is set, no answer goes on."""
        self.looks = 0
        """Looks of requests that wait for memory."""

    def _wait(self, condition: Any, seconds: float) -> None:
        self.looks += 1
        condition.wait(seconds)

    def gate(self, job: Job, name: str) -> Gate:
        kind: Any = FAKES[job]
        options = {"mapped_mb": 0, "private_mb": 60, "request_mb": self.request}
        engine = kind(ModelSpec(job, name, f"{kind.__module__}:{kind.__name__}", id=name, options=options))
        gate = gate_of(engine, self.governor, clock=self.clock, queue_limit=2)

        def work() -> None:
            if engine.rung is Rung.HOT and engine.steps[-1] == "heat":
                assert self.go.wait(PATIENCE_SECONDS)
                self.clock.now += PART
                self._let_others_look()

        engine.on_work = work
        self.probe.residents.append(gate)
        self.governor.adopt(gate)
        self.gates.append(gate)
        return gate

    def _let_others_look(self) -> None:
        """Time passes for those who wait, too."""
        seen = self.looks
        self.governor.wake()
        until(lambda: self.looks > seen or not self.governor.accounts.tickets)

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *raised: object) -> None:
        self.go.set()
        self.governor.accounts.close()
        for gate in self.gates:
            gate.stop()


class Asked(Mailbox):
    """One request of a client. ``begun`` counts how often it was said to begin. ``ended``: on the gate's clock.

    ``read``: its reader has room for more, also once a part of it has been given.
    """

    def __init__(self, gate: Gate, request: Request, client: Client = ADA, read: bool = True) -> None:
        super().__init__()
        self.begun = 0
        self.ended: float | None = None
        self._gate, self._client = gate, client
        gate.acquire(None, client)
        self.work_ = Work(request, self._emit, begun=self._begin, place=Place(client))
        self.work_.room = lambda: read or not self.work_.resumed
        gate.submit(self.work_)

    def _begin(self, request: Request) -> None:
        self.begun += 1

    def _emit(self, item: Any) -> None:
        if isinstance(item, Done):
            self.ended = self._gate.clock()
            self._gate.release(self._client)
        self.items.put(item)


def whole(job: Job, request: Request) -> list[Any]:
    """The answer without a rest."""
    engine: Any = FAKES[job](ModelSpec(job, "alone", "fake"))
    engine.open()
    engine.heat()
    return told(getattr(engine, METHODS[type(request)])(request, threading.Event()))


def long_answers(box: Box, *jobs: Job) -> list[Asked]:
    """A long answer under way, and others of other models that wait for its memory."""
    asked: list[Asked] = []
    for number, job in enumerate(jobs):
        asked.append(Asked(box.gate(job, f"{job}{number}"), REQUESTS[job]))
        until(lambda: box.gates[0].rung is Rung.HOT and len(list(box.governor.accounts.tickets)) == len(asked) - 1)
    return asked


@each("jobs", ["tts asr", "asr asr", "tts asr tts", "embedding asr", "speaker asr"])
def test_long_answers_take_turns_and_end_whole(jobs: str) -> None:
    """Each turn lasts its hot time and a part of an answer at most, as long as another model waits."""
    with Box() as box:
        kinds: list[Any] = jobs.split()
        asked = long_answers(box, *kinds)
        box.go.set()
        for one, job in zip(asked, kinds, strict=True):
            assert one.rest() == (whole(job, REQUESTS[job]), None)
        assert [one.begun for one in asked] == [1] * len(kinds)
        until(lambda: box.governor.accounts.no_reservations() and not any(gate.leases for gate in box.gates))
        turns = [engine_of(gate).steps.count("heat") for gate in box.gates]
        parts = HOT / PART + 1
        assert min(turns) >= 40 / parts / 2
        assert sum(turns) <= len(kinds) * (40 / (HOT / PART) + 1)


@each("jobs", ["tts asr", "asr tts"])
def test_a_short_answer_of_another_client_waits_for_one_part_of_a_long_one(jobs: str) -> None:
    """There is no memory for both at once: it would else begin as the long one ends."""
    with Box(request=22) as box:
        long, other = long_answers(box, *jobs.split())  # type: ignore[arg-type]
        request: Any = REQUESTS[jobs.split()[0]]
        asked = Asked(box.gates[0], short_of(request), BOB)
        box.go.set()
        assert long.rest() == (whole(jobs.split()[0], request), None)  # type: ignore[arg-type]
        assert (asked.rest()[1], other.rest()[1]) == (None, None)
        assert asked.ended is not None
        assert long.ended is not None
        assert long.ended - asked.ended > 20 * PART, "of 40 parts"


def short_of(request: Request) -> Request:
    """A request of the same kind whose answer has one part."""
    return SpeakRequest("One.") if isinstance(request, SpeakRequest) else TranscribeRequest(Pcm(bytes(64_000)))


@each("job", ["tts", "asr"])
def test_a_short_answer_waits_for_one_part_of_another_clients_beside_which_it_has_no_room(job: Job) -> None:
    """No other engine wants the memory: it waited for the end of the long one."""
    with Box(request=22) as box:
        (long,) = long_answers(box, job)
        asked = [Asked(box.gates[0], short_of(REQUESTS[job]), client) for client in (ADA, BOB)]
        box.go.set()
        assert long.rest() == (whole(job, REQUESTS[job]), None)
        assert [one.rest()[1] for one in asked] == [None, None]
        ended = [one.ended or 0.0 for one in (long, *asked)]
        assert ended[2] - 1000.0 <= HOT + 3 * PART
        assert ended[1] > ended[0], "the client's own waits for it"
        assert engine_of(box.gates[0]).steps.count("heat") == 1
        assert long.begun == 1


def test_a_short_answer_waits_for_one_part_where_the_other_client_has_one_more_at_rest() -> None:
    with Box(request=22) as box:
        read = threading.Event()
        (long,) = long_answers(box, "tts")
        long.work_.room, long.work_.spare = (lambda: read.is_set() or long.items.qsize() < 4), (lambda: True)
        first = Asked(box.gates[0], SpeakRequest("One."), BOB)
        box.go.set()
        assert first.rest()[1] is None
        box.go.clear()
        own = Asked(box.gates[0], SPEECH)
        until(lambda: own.begun)
        read.set()
        box.gates[0].wake()
        second = Asked(box.gates[0], SpeakRequest("One."), BOB)
        box.go.set()
        assert [one.rest()[1] for one in (second, long, own)] == [None] * 3
        ended = [one.ended or 0.0 for one in (first, second, long, own)]
        assert ended[1] - ended[0] <= HOT + 3 * PART
        assert min(ended[2:]) - ended[1] > 20 * PART


def test_speech_that_has_waited_for_its_reader_goes_on_to_its_rest_as_another_model_wants_its_memory() -> None:
    """Two requests in turn cut a listener: the first, cancelled soon, left more in the mailbox than 15 s of sound."""
    with Box() as box:
        (listened,), read = long_answers(box, "tts"), threading.Event()
        listened.work_.room = lambda: read.is_set() or listened.items.qsize() < 5
        listened.work_.spare = lambda: True
        box.go.set()
        until(lambda: box.gates[0].host.stuck)
        box.clock.now += LONG_PATIENCE
        sound = Asked(box.gate("asr", "asr"), SOUND)
        assert sound.rest() == (whole("asr", SOUND), None)
        read.set()
        box.gates[0].wake()
        assert listened.rest() == (whole("tts", SPEECH), None)


def test_an_answer_beside_which_others_have_room_goes_on() -> None:
    with Box() as box:
        (long,) = long_answers(box, "asr")
        asked = Asked(box.gates[0], short_of(SOUND), BOB)
        box.go.set()
        assert (long.rest(), asked.rest()[1]) == ((whole("asr", SOUND), None), None)
        assert not long.work_.resumed


def test_an_answer_goes_on_where_the_other_would_wait_for_files_all_the_same() -> None:
    """They came since it began. It would wait for them, too."""
    with Box(request=22) as box:
        (long,) = long_answers(box, "asr")
        box.undelivered = 30 * MB
        asked = Asked(box.gates[0], short_of(SOUND), BOB)
        box.go.set()
        assert long.rest() == (whole("asr", SOUND), None)
        assert not long.work_.resumed
        box.undelivered = 0
        box.governor.wake()
        assert asked.rest()[1] is None


def test_long_answers_of_two_clients_take_turns_where_there_is_room_for_one() -> None:
    with Box(request=22) as box:
        (long,) = long_answers(box, "asr")
        other = Asked(box.gates[0], SOUND, BOB)
        box.go.set()
        assert [one.rest() for one in (long, other)] == [(whole("asr", SOUND), None)] * 2
        assert long.ended is not None
        assert other.ended is not None
        assert 0.0 < other.ended - long.ended <= 2 * HOT


def test_an_answer_that_rests_keeps_its_place_and_ends_with_its_client_or_the_server() -> None:
    """Newcomers displace it neither from a full queue nor from its turn. Its client's cancel ends it at once."""
    with Box() as box:
        speech, sound = long_answers(box, "tts", "asr")
        box.go.set()
        until(lambda: speech.work_.resumed and sound.work_.resumed)
        box.go.clear()
        gate = box.gates[0] if box.gates[0].rung is not Rung.HOT else box.gates[1]
        rests, runs = (speech, sound) if gate is box.gates[0] else (sound, speech)
        waiting = [Asked(gate, rests.work_.request, BOB) for _ in range(2)]
        with pytest.raises(Busy):
            gate.acquire(None, BOB)
        assert not rests.work_.cancel.is_set()
        gate.cancel(rests.work_)
        assert isinstance(rests.rest()[1], Cancelled)
        gate.stop()
        assert all(isinstance(one.rest()[1], ShuttingDown) for one in waiting)
        box.go.set()
        assert runs.rest()[1] is None


def unread_at_rest(box: Box, job: Job, first: Client, *others: Client) -> tuple[Gate, list[Asked]]:
    """An engine with an answer of each client at rest, and those answers, which nobody reads."""
    gate, other = box.gate(job, job), box.gate("embedding", "other")
    long = [Asked(gate, REQUESTS[job], first, read=False)]
    until(lambda: gate.rung is Rung.HOT)
    texts = Asked(other, TEXTS, BOB)
    long += [Asked(gate, REQUESTS[job], one, read=False) for one in others]
    box.go.set()
    assert texts.rest()[1] is None
    until(lambda: all(one.work_.resumed for one in long) and not gate.host.slowest(0.0))
    return gate, long


@each("job", ["tts", "asr"])
def test_answers_at_rest_that_hold_all_places_keep_no_other_client_out(job: Job) -> None:
    """None of them can be displaced, and none is unread at the engine: others were refused with 503."""
    with Box() as box:
        gate, long = unread_at_rest(box, job, ADA, ADA, ADA)
        with pytest.raises(Busy):
            gate.acquire(None, ADA)
        assert Asked(gate, short_of(REQUESTS[job]), BOB).rest()[1] is None
        assert not any(one.work_.cancel.is_set() for one in long)


@each("job", ["tts", "asr"])
def test_unread_answers_at_rest_of_many_clients_keep_no_other_one_out_for_ever(job: Job) -> None:
    """Each client has one place: none has more than the newcomer, which was refused as long as they did not read."""
    with Box() as box:
        gate, long = unread_at_rest(box, job, ADA, *(Client(address=f"192.0.2.{number}") for number in (3, 4)))
        with pytest.raises(Busy):
            gate.acquire(None, BOB)
        box.clock.now += REST_PATIENCE
        assert Asked(gate, short_of(REQUESTS[job]), BOB).rest()[1] is None
        (cut,) = [one for one in long if one.work_.cancel.is_set()]
        assert isinstance(cut.rest()[1], SlowReader)


def test_an_answer_goes_on_where_there_is_no_room_for_its_rest() -> None:
    """Each rest asks for the bytes of its state. The answer that waits has its turn behind the whole other one."""
    with Box() as box:
        voices, sound = long_answers(box, "speaker", "asr")
        asked: list[int] = []
        voices.work_.keep = lambda size: bool(asked.append(size))
        box.go.set()
        assert voices.rest() == (whole("speaker", VOICES), None)
        assert sound.rest() == (whole("asr", SOUND), None)
        assert not voices.work_.resumed
        assert engine_of(box.gates[0]).steps.count("heat") == 1
        assert asked == sorted(asked)
        assert len(asked) > HOT / PART
