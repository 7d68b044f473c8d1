"""The queue of a gate between clients: whose turn is next, and who gives a place up."""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.contract import ask
from support.examples import examples
from support.gates import BATCHING_FAKES, Clock, CountingGovernor, Held, Mailbox, engine_of, fake_spec, gate_of
from support.server import until

from edgeserve.clients import Client
from edgeserve.errors import Busy, Cancelled, SlowReader
from edgeserve.messages import (
    LONG_CHARS,
    ChatRequest,
    EmbeddingEvent,
    EmbedRequest,
    Message,
    Request,
    RerankRequest,
    Rest,
    SpeakRequest,
    TextRequest,
    Tool,
)
from edgeserve.residency.gate import Gate
from edgeserve.residency.queue import Queue
from edgeserve.residency.rounds import Place
from edgeserve.residency.work import LONG_MESSAGES, LONG_TALK, Done, Work

ADA, BOB, CLEO, DORA = (Client(address=f"192.0.2.{number}") for number in (1, 2, 3, 4))


class Asked:
    """One request of a client through a gate, with its lease. ``begun`` gets the request's words as it begins."""

    def __init__(self, gate: Gate, client: Client, words: str, begun: Callable[[str], None] = lambda words: None):
        self._gate, self._client, self.box = gate, client, Mailbox()

        def begin(request: Request) -> None:
            begun(words)

        gate.acquire(None, client)
        self.work = Work(ask(words), self._emit, begun=begin, place=Place(client))
        gate.submit(self.work)

    def _emit(self, item: Any) -> None:
        if isinstance(item, Done):
            self._gate.release(self._client)
        self.box.items.put(item)

    def end(self) -> Exception | None:
        return self.box.rest()[1]


def full_gate(gates: Callable[..., Gate], queue_limit: int, **settings: Any) -> tuple[Gate, Held, list[Asked]]:
    """A gate all of whose places Ada has, and the engine at work on her first request."""
    gate = gates(queue_limit=queue_limit, **settings)
    held = Held(engine_of(gate))
    asked = [Asked(gate, ADA, "word")]
    assert held.entered.wait(10)
    return gate, held, asked + [Asked(gate, ADA, f"word{number}") for number in range(queue_limit)]


def test_the_client_with_the_most_places_gives_its_last_one_up(gates: Callable[..., Gate]) -> None:
    gate, held, asked = full_gate(gates, 4)
    bobs = [Asked(gate, BOB, "bob") for _ in range(2)]
    for displaced in (asked.pop(), asked.pop()):
        error = displaced.end()
        assert isinstance(error, Busy)
        assert error.retry_after is not None
        assert "by you, and a client with fewer took this one" in error.message
    assert gate.leases == 5
    with pytest.raises(Busy, match="all 4 places in its queue are taken; try"):
        gate.acquire(None, BOB)
    held.go.set()
    assert [one.end() for one in [*asked, *bobs]] == [None] * 5
    assert gate.leases == 0


def test_an_answer_under_way_is_never_displaced() -> None:
    engine, go, begun = BATCHING_FAKES["llm"](fake_spec(slots=2)), threading.Event(), list[str]()
    gate = gate_of(engine, queue_limit=0)
    gate.preload()
    engine.on_work = lambda: go.wait(10)
    with gate.host.hold():
        asked = [Asked(gate, ADA, "one two", begun.append) for _ in range(2)]
    until(lambda: len(begun) == 2)
    with pytest.raises(Busy):
        gate.acquire(None, BOB)
    go.set()
    assert [one.end() for one in asked] == [None] * 2
    gate.stop()


@pytest.mark.parametrize("queue_limit", [1, 2, 8])
def test_answers_that_nobody_reads_refuse_no_other_client(gates: Callable[..., Gate], queue_limit: int) -> None:
    """They leave the engine to others, and are cut only after 10 s: their places would be taken for as long."""
    gate = gates("tts", queue_limit=queue_limit, clock=Clock())
    places, unread = queue_limit + 1, list[Work]()
    for _ in range(places):
        gate.acquire(None, ADA)
        unread.append(Work(SpeakRequest("one. two."), Mailbox().items.put, lambda: False, place=Place(ADA)))
        gate.submit(unread[-1])
        until(lambda: gate.host.stuck and unread[-1].place.running == 1)
    with pytest.raises(Busy):
        gate.acquire(None, ADA)
    box = Mailbox()
    gate.acquire(None, BOB)
    gate.submit(Work(SpeakRequest("hello."), box.items.put, place=Place(BOB)))
    assert box.rest()[1] is None
    assert not any(work.cancel.is_set() for work in unread)
    others = [Client(address=f"198.51.100.{number}") for number in range(places)]
    for client in others[1:]:
        gate.acquire(None, client)
    with pytest.raises(Busy):
        gate.acquire(None, others[0])


def test_answers_at_rest_that_nobody_reads_refuse_no_other_client(gates: Callable[..., Gate]) -> None:
    """They keep their places as those under way do, but no host knows them: others got 503 beside an idle engine."""
    governor, clock = CountingGovernor(waited_for=True), Clock()
    gate, rested, boxes = gates("tts", governor, queue_limit=1, clock=clock), list[Work](), list[Mailbox]()
    for client in (ADA, ADA):
        boxes.append(Mailbox())
        rested.append(Work(SpeakRequest("one. two."), boxes[-1].items.put, lambda: False, place=Place(client)))
        rested[-1].spare = lambda: True
        gate.acquire(None, client)
        gate.submit(rested[-1])
        until(lambda: rested[-1].rested and governor.released == len(rested))
    with pytest.raises(Busy):
        gate.acquire(None, ADA)
    governor.waited_for, box = False, Mailbox()
    gate.acquire(None, BOB)
    gate.submit(Work(SpeakRequest("hello."), box.items.put, place=Place(BOB)))
    assert box.rest()[1] is None
    gate.acquire(None, CLEO)
    clock.now += 59
    with pytest.raises(Busy):
        gate.acquire(None, DORA)
    clock.now += 1
    gate.acquire(None, DORA)
    assert [one.cancel.is_set() for one in rested] == [True, False]
    assert isinstance(boxes[0].rest()[1], SlowReader)


def test_of_requests_with_several_answers_the_one_that_has_not_begun_goes_first(gates: Callable[..., Gate]) -> None:
    gate, held, asked = full_gate(gates, 2)
    asked[2].work.place.begun = 1
    bob = Asked(gate, BOB, "bob")
    assert isinstance(asked[1].end(), Busy)
    assert gate.leases == 3
    asked[2].work.place.running = 1
    with pytest.raises(Busy):
        gate.acquire(None, CLEO)
    held.go.set()
    assert [one.end() for one in (asked[0], asked[2], bob)] == [None] * 3


def test_a_queue_of_half_done_requests_gives_a_place_up_too(gates: Callable[..., Gate]) -> None:
    """Else nine requests whose answers come one after the other would keep all places until the last answer."""
    gate, held, asked = full_gate(gates, 3)
    for one in asked[1:]:
        one.work.place.begun = 1
    bob = Asked(gate, BOB, "bob")
    assert isinstance(asked.pop().end(), Busy)
    held.go.set()
    assert [one.end() for one in [*asked, bob]] == [None] * 4


def test_a_greedy_client_cuts_no_slow_reader_that_has_less(gates: Callable[..., Gate]) -> None:
    clock = Clock()
    gate = gates("tts", queue_limit=2, clock=clock)
    box = Mailbox()
    gate.acquire(None, BOB)
    slow = Work(SpeakRequest("one. two."), box.items.put, lambda: False, place=Place(BOB))
    gate.submit(slow)
    until(lambda: gate.host.stuck)
    for _ in range(2):
        gate.acquire(None, ADA)
    clock.now += 100
    with pytest.raises(Busy):
        gate.acquire(None, ADA)
    assert not slow.cancel.is_set()
    gate.acquire(None, CLEO)
    assert slow.cancel.is_set(), "it has waited for too long, and Cleo has not more places than Bob"
    assert isinstance(box.rest()[1], Exception)


def test_preparing_goes_round_too() -> None:
    queue = Queue(threading.Condition())
    works = [Work(ask(f"{number}"), lambda item: None, place=Place(ADA)) for number in range(3)]
    other = Work(ask("other"), lambda item: None, place=Place(BOB))
    for work in [*works, other]:
        queue.add(work)
    order = []
    while (work := queue.arriving()) is not None:  # type: ignore[assignment]
        order.append(work)
        assert queue.arrive(work)
    assert order == [works[0], other, *works[1:]]


def test_long_texts_are_prepared_beside_the_others_in_turns_of_their_own() -> None:
    queue = Queue(threading.Condition())
    long = TextRequest(text="x" * (LONG_CHARS + 1))
    works = [Work(long, lambda item: None, place=Place(ADA)) for _ in range(2)]
    other, short = (Work(one, lambda item: None, place=Place(BOB)) for one in (long, TextRequest(text="short")))
    for work in [*works, other, short]:
        queue.add(work)
    assert queue.arriving() is short
    assert queue.arriving(long_texts=True) is works[0]
    assert queue.arrive(works[0])
    assert queue.arriving(long_texts=True) is other, "clients take turns"
    assert queue.withdraw(other)
    assert queue.withdraw_last([ADA.groups]) is works[1]
    assert queue.arriving(long_texts=True) is None


@pytest.mark.parametrize(("request_", "long"), [
    (TextRequest(text="x" * LONG_CHARS), False),
    (TextRequest(text="x" * (LONG_CHARS + 1)), True),
    (TextRequest(tokens=(1,) * (LONG_CHARS + 1)), True),
    (TextRequest(chat=ask("x" * LONG_CHARS)), False),
    (TextRequest(chat=ask("x" * (LONG_CHARS + 1))), True),
    (ask("x" * (LONG_CHARS + 1)), False),
    (ask("x" * LONG_TALK), False),
    (ask("x" * (LONG_TALK + 1)), True),
    (ChatRequest((Message("assistant", (), reasoning=" " * (LONG_TALK + 1)),)), True),
    (ChatRequest((Message("user", ()),), tools=(Tool("f", " " * LONG_TALK, " "),)), True),
    (ChatRequest(prompt=" " * LONG_TALK), False),
    (ChatRequest(prompt=" " * (LONG_TALK + 1)), True),
    (ChatRequest((Message("user", ()),) * LONG_MESSAGES), False),
    (ChatRequest((Message("user", ()),) * (LONG_MESSAGES + 1)), True),
    (TextRequest(chat=ChatRequest((Message("user", ()),) * (LONG_MESSAGES + 1))), True),
    (EmbedRequest(("x", "x" * (LONG_CHARS - 1))), False),
    (EmbedRequest(("x", (1,) * LONG_CHARS)), True),
    (RerankRequest("q", ("x", "x" * (LONG_CHARS - 1))), False),
    (RerankRequest("q", ("x", "x" * LONG_CHARS)), True),
])  # fmt: skip
def test_which_texts_are_long(request_: Request, long: bool) -> None:
    assert Work(request_, lambda item: None).is_long_text is long


def test_cancelled_in_preparation_it_was_the_turn_of_its_client() -> None:
    """Else a client that cancels each request as it is prepared would keep the only thread."""
    queue = Queue(threading.Condition())
    works = [Work(ask(f"{number}"), lambda item: None, place=Place(ADA)) for number in range(3)]
    other = Work(ask("other"), lambda item: None, place=Place(BOB))
    for work in [*works, other]:
        queue.add(work)
    assert queue.arriving() is works[0]
    assert queue.withdraw(works[0])
    assert queue.arriving() is other


@dataclass(order=True)
class Arrival:
    at: float
    client: int = field(compare=False)
    seconds: float = field(compare=False)


ARRIVALS = st.builds(Arrival, st.floats(0, 20), st.integers(0, 3), st.floats(0.1, 5))
FLOOD = st.lists(st.floats(0.1, 5), min_size=1, max_size=5).map(lambda some: (some * 50)[:50])


class Engine:
    """A simulated engine of ``slots`` slots, its queue, and the answers that it has begun."""

    def __init__(self, slots: int) -> None:
        self.queue = Queue(threading.Condition(), lambda: slots)
        self.slots = slots
        self.ends: list[tuple[float, int, Work]] = []
        self.started: dict[Work, float] = {}
        self._seconds: dict[Work, float] = {}

    def arrive(self, client: Client, answers: list[float]) -> list[Work]:
        """The work of one request, whose answers take so many seconds each."""
        place = Place(client)
        works = [Work(ask("word"), lambda item: None, place=place) for _ in answers]
        for work, length in zip(works, answers, strict=True):
            self._seconds[work] = length
            self.queue.add(work)
            assert self.queue.arrive(work)
        return works

    def fill(self, now: float) -> None:
        while len(self.ends) < self.slots and (work := self.queue.take()) is not None:
            self.started[work] = now
            heapq.heappush(self.ends, (now + self._seconds[work], len(self.started), work))

    def run_until(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            ended, _, work = heapq.heappop(self.ends)
            self.queue.end(work)
            self.fill(ended)


@pytest.mark.slow
@examples(100)
@given(FLOOD, st.lists(ARRIVALS, max_size=12), st.floats(0, 60), st.integers(1, 4), st.integers(1, 8))
def test_a_flood_delays_the_first_request_of_another_by_one_answer_at_most(
    flood: list[float], others: list[Arrival], at: float, slots: int, choices: int
) -> None:
    """Simulated: 50 requests of one client, some of them with several answers, and any of others; then Bob's first.

    Bob waits for the first slot that frees, and for one answer of each other client that waits already.
    """
    engine = Engine(slots)
    for start in range(0, len(flood), choices):
        engine.arrive(ADA, flood[start : start + choices])
    engine.fill(0.0)
    for one in sorted(one for one in others if one.at <= at):
        engine.run_until(one.at)
        engine.arrive(Client(address=f"198.51.100.{one.client}"), [one.seconds])
        engine.fill(one.at)
    engine.run_until(at)
    running = {work.place.client for _, _, work in engine.ends}
    free = at if len(engine.ends) < slots else min(end for end, _, _ in engine.ends)
    waiting = {work.place.client for work in engine.queue if work not in engine.started}
    earlier = len(engine.started)
    (bobs,) = engine.arrive(BOB, [1.0])
    engine.fill(at)
    engine.run_until(float("inf"))
    turns = list(engine.started)[earlier:]
    ahead = Counter(work.place.client for work in turns[: turns.index(bobs)])
    assert max(ahead.values(), default=0) <= 1, "each other client has one turn at most"
    assert not any(ahead[client] for client in running), "and none of them while its answer ran as Bob came"
    assert not any(ahead[client] for client in {*ahead} - waiting), "nor if it came after Bob"
    if not waiting - running:
        assert engine.started[bobs] == free, "the first slot that frees is Bob's"


class Lock(threading.Condition):
    """Counts how often it was taken."""

    taken = 0

    def __enter__(self) -> bool:
        self.taken += 1
        return super().__enter__()


@each(
    "look",
    [
        iter,
        Queue.waits,
        Queue.arriving,
        Queue.take,
        lambda queue: queue.arrive(Work(ask("word"), emit=print)),
        lambda queue: queue.withdraw(Work(ask("word"), emit=print)),
        lambda queue: queue.withdraw_last([ADA.groups]),
        lambda queue: queue.end(Work(ask("word"), emit=print)),
    ],
)
def test_every_look_takes_the_lock(look: Callable[[Queue], object]) -> None:
    """The host's thread looks while other threads add work: a look without the lock may meet a half-changed line."""
    lock = Lock()
    look(Queue(lock))
    assert lock.taken


def test_a_cancelled_request_gives_its_place_back(gates: Callable[..., Gate]) -> None:
    gate, held, asked = full_gate(gates, 2)
    gate.cancel(asked[-1].work)
    assert isinstance(asked[-1].end(), Cancelled)
    asked[-1] = Asked(gate, ADA, "again")
    held.go.set()
    assert [one.end() for one in asked] == [None] * 3


def resting(queue: Queue, *clients: Client) -> list[Work]:
    """Answers of which a part has been given, and that rest, in this order."""
    works = [Work(EmbedRequest(("one", "two")), lambda item: None, place=Place(client)) for client in clients]
    for work in works:
        queue.add(work)
        queue.arrive(work)
    for _ in works:
        assert queue.take() is not None
    for work in works:
        assert work.rest_behind(EmbeddingEvent(b"", 1), 1)
        assert queue.wait_again(work, None)
    return works


def test_clients_whose_answers_rest_take_turns() -> None:
    """All of one client would else go on before the first of another, where one goes on at a time."""
    queue = Queue(threading.Condition())
    first, second, other = resting(queue, ADA, ADA, BOB)
    assert [queue.take() for _ in range(3)] == [first, other, second]


def waiting(queue: Queue, client: Client) -> Work:
    work = Work(SpeakRequest("word"), lambda item: None, place=Place(client))
    queue.add(work)
    queue.arrive(work)
    return work


def test_another_client_that_waited_as_an_answer_came_to_rest_begins_before_it_goes_on() -> None:
    """It would else wait for all parts of a long answer, where memory is short for both. Newcomers wait for one."""
    queue = Queue(threading.Condition())
    long, short, own = waiting(queue, ADA), waiting(queue, BOB), waiting(queue, ADA)
    assert queue.take() is long
    assert long.rest_behind(Rest(1), 1)
    assert queue.wait_again(long, None)
    later = waiting(queue, CLEO)
    assert queue.take() is short
    queue.put_back(short)
    assert queue.take() is short
    assert queue.end(short)
    assert [queue.take() for _ in range(3)] == [long, later, own]


def test_clients_with_one_key_share_the_turn_before_an_answer_goes_on() -> None:
    """Each of them went before it: one key kept an answer under way for as long as eight others took."""
    queue = Queue(threading.Condition())
    long = waiting(queue, Client("ada", "192.0.2.1"))
    others = [waiting(queue, Client("bob", f"192.0.2.{number}")) for number in (2, 3)]
    assert queue.take() is long
    for first in others:
        assert long.rest_behind(Rest(1), 1)
        assert queue.wait_again(long, None)
        assert queue.take() is first
        assert queue.end(first)
        assert queue.take() is long


def test_an_answer_that_found_no_room_keeps_its_place_among_those_that_rest() -> None:
    """Each try put it behind the others: who went on was a matter of how often the host looked."""
    queue = Queue(threading.Condition())
    works = [waiting(queue, client) for client in (ADA, BOB)]
    assert [queue.take(), queue.take()] == works
    for work in works:
        assert work.rest_behind(Rest(1), 1)
        assert queue.wait_again(work, None)
    for _ in range(3):
        assert queue.take() is works[0]
        queue.put_back(works[0])
    assert [queue.take(), queue.take()] == works
    assert all(queue.end(work) for work in works)


def test_work_gives_way_to_another_clients_that_found_no_room_beside_it() -> None:
    queue = Queue(threading.Condition())
    work, own, other = waiting(queue, ADA), waiting(queue, ADA), waiting(queue, BOB)
    assert [queue.take(), queue.take()] == [work, other]
    queue.put_back(other)
    assert not queue.gives_way(work), "it would wait for others' files"
    assert queue.take() is other
    other.kept_out = own.kept_out = True
    queue.put_back(other)
    assert queue.gives_way(work)
    queue.withdraw(other)
    assert not queue.gives_way(work)
    assert queue.take() is own
    queue.put_back(own)
    assert not queue.gives_way(work), "the client's own"


def test_an_answer_gives_way_to_another_client_behind_its_own_clients() -> None:
    """An answer at rest of the same client was next and found no room. The other client waited for the end."""
    queue = Queue(threading.Condition())
    first, second = waiting(queue, ADA), waiting(queue, ADA)
    assert [queue.take(), queue.take()] == [first, second]
    for one in (first, second):
        assert one.rest_behind(Rest(1), 1)
        assert queue.wait_again(one, None)
    assert queue.take() is first
    later = waiting(queue, BOB)
    assert queue.take() is second
    second.kept_out = True
    queue.put_back(second)
    assert queue.gives_way(first)
    assert first.rest_behind(Rest(2), 1)
    assert queue.wait_again(first, None)
    assert queue.take() is later


def test_an_answer_that_rests_goes_on_before_those_that_came_since() -> None:
    """Each rest of another answer let newcomers go first: a client that cancelled and asked anew was always next."""
    queue = Queue(threading.Condition())
    long, other = waiting(queue, ADA), waiting(queue, BOB)
    assert queue.take() is long
    assert long.rest_behind(Rest(1), 1)
    assert queue.wait_again(long, None)
    assert queue.take() is other
    waiting(queue, BOB)
    assert other.rest_behind(Rest(1), 1)
    assert queue.wait_again(other, None)
    queue.withdraw(other)
    assert queue.take() is long


def test_a_newcomer_waits_for_one_part_of_all_that_a_client_lets_rest() -> None:
    queue = Queue(threading.Condition())
    long = [waiting(queue, ADA) for _ in range(4)]
    assert [queue.take() for _ in long] == long
    for one in long:
        assert one.rest_behind(Rest(1), 1)
        assert queue.wait_again(one, None)
    later = waiting(queue, BOB)
    assert (first := queue.take()) in long
    assert first.rest_behind(Rest(2), 1)
    assert queue.wait_again(first, None)
    assert queue.take() is later


def test_a_list_goes_on_before_others() -> None:
    """Its engine comes back with the context that the list needs."""
    queue = Queue(threading.Condition())
    first = Work(EmbedRequest(("one", "two")), lambda item: None, place=Place(ADA))
    queue.add(first)
    queue.arrive(first)
    assert queue.take() is first
    other = waiting(queue, BOB)
    assert first.rest_behind(EmbeddingEvent(b"", 1), 1)
    assert queue.wait_again(first, None)
    assert [queue.take(), queue.take()] == [first, other]


def test_an_answer_that_rests_may_take_the_place_of_one_that_nobody_reads() -> None:
    queue = Queue(threading.Condition())
    unread = Work(ask("word"), lambda item: None, place=Place(ADA))
    queue.add(unread)
    queue.arrive(unread)
    assert queue.take() is unread
    assert not queue.claimed(unread)
    resting(queue, BOB)
    assert queue.claimed(unread)


def test_an_answer_at_rest_waits_for_its_reader_and_keeps_nobody_waiting() -> None:
    """It took the engine's memory again, and gave it to nobody until its reader had read on."""
    queue = Queue(threading.Condition())
    unread, read = waiting(queue, ADA), waiting(queue, BOB)
    rooms = {unread: False, read: True}
    for one in (unread, read):
        assert queue.take() is one
        one.room = lambda one=one: rooms[one]  # type: ignore[misc]
        assert one.rest_behind(Rest(1), 1)
        assert queue.wait_again(one, None)
    assert queue.resting
    assert queue.take() is read
    assert not queue.waits()
    assert queue.take() is None
    later = waiting(queue, CLEO)
    assert queue.take() is later
    rooms[unread] = True
    assert queue.waits()
    assert queue.take() is unread
    assert not queue.resting
