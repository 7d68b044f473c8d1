"""Turns under any pattern of arrivals, on a simulated clock, by the real governor."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.memory import POLICY
from support.simulated_gates import Asked, SimulatedGate, SimulatedWorld, Span

from edgeserve.engine import Rung
from edgeserve.errors import Cancelled, DoesNotFit
from edgeserve.memory.entry import SWITCHING_SHARE
from edgeserve.units import MB

TOTAL = 1000
LONGEST = 8.0
"""Seconds of the longest answer."""


def gates_of(draw: st.DrawFn) -> list[SimulatedGate]:
    """Two to four models. Any of them fits alone, but for a giant, and beside a pinned one."""
    names = "abcd"[: draw(st.integers(2, 4))]
    gates = [
        SimulatedGate(
            name,
            draw(st.sampled_from([150, 300, 450, 700])),
            up=draw(st.sampled_from([0.0, 0.1, 1.0, 4.0])),
            down=draw(st.sampled_from([0.0, 0.05, 0.5])),
            slots=draw(st.sampled_from([1, 3])),
            rests=draw(st.booleans()),
        )
        for name in names
    ]
    if draw(st.booleans()):
        gates.append(SimulatedGate("pinned", 100, up=0.1, down=0.1, slots=1, pinned=True))
    if draw(st.booleans()):
        gates.append(SimulatedGate("giant", 1200, up=0.1, down=0.1, slots=1))
    return gates


@st.composite
def worlds(draw: st.DrawFn) -> SimulatedWorld:
    gates = gates_of(draw)
    requests, now = [], 1000.0
    for _ in range(draw(st.integers(2, 40))):
        now += draw(st.sampled_from([0.0, 0.0, 0.005, 0.3, 2.0, 4.0]))
        name = draw(st.sampled_from([one.id for one in gates]))
        seconds = draw(st.sampled_from([0.005, 0.2, 1.0, LONGEST]))
        leaves = draw(st.sampled_from([float("inf"), float("inf"), float("inf"), 0.5, 3.0]))
        requests.append(Asked(name, now, seconds, leaves))
    for gate in gates[: draw(st.integers(0, 2))]:
        requests += flood(gate.id, draw(st.sampled_from([0.2, 0.9, 4.0])), draw(st.sampled_from([0.005, 1.0])))
    return SimulatedWorld(TOTAL, gates, requests, random.Random(draw(st.integers(0, 1 << 16))))


def flood(name: str, every: float, seconds: float) -> list[Asked]:
    """A client, or many, who always ask again."""
    return [Asked(name, 1000.0 + number * every, seconds) for number in range(40)]


def busy(spans: Sequence[Span], start: float, end: float) -> float:
    """Seconds of this time in which an answer, or a step of an engine, was under way."""
    covered, until = 0.0, start
    for one in sorted(spans, key=lambda one: one.start):
        begins, ends = max(one.start, until), min(one.end, end)
        if ends > begins:
            covered, until = covered + ends - begins, ends
    return covered


def unserved(one: Asked, at: float) -> bool:
    return one.began is None or one.began >= at


def turn_of(gate: SimulatedGate) -> float:
    """Longest turn of a model: its steps, its hot time, and the answers that began in it."""
    cost = gate.up + gate.down
    return cost + max(POLICY.min_hot_seconds, cost * (1 / SWITCHING_SHARE - 1)) + LONGEST


def turns_before(model: str, gates: Iterable[SimulatedGate]) -> float:
    """Longest turns of all other models before one turn of ``model``.

    A model whose answers rest may have one more beside the turn of each model whose answers do not.
    """
    others = [one for one in gates if one.id not in ("giant", model)]
    more = sum(turn_of(one) for one in others if one.rests) * sum(not one.rests for one in others)
    return sum(map(turn_of, others)) + more


@pytest.mark.slow
@given(worlds())
@examples(60)
def test_every_request_that_can_fit_is_served_within_the_work_ahead_of_it(world: SimulatedWorld) -> None:
    """And nothing else is refused. ``busy`` is the work and the switches ahead of a request: it waits for nothing else.

    A request waits at most one turn of each other model for each turn of its own. A turn serves at least one request.
    """
    world.play()
    queues: dict[str, list[Asked]] = {}
    for one in world.requests:
        queues.setdefault(one.model, []).append(one)
    for one in world.requests:
        if one.model == "giant":
            assert isinstance(one.error, DoesNotFit | Cancelled)
            continue
        if isinstance(one.error, Cancelled):
            assert one.leaves < float("inf")
            continue
        assert one.error is None
        assert one.began is not None, "it was never served"
        waited = one.began - one.arrived
        assert waited - busy(world.spans, one.arrived, one.began) < 0.02
        others = turns_before(one.model, world.gates.values())
        ahead = sum(other.arrived <= one.arrived and unserved(other, one.arrived) for other in queues[one.model])
        assert waited <= ahead * (others + turn_of(world.gates[one.model])) + 0.02
    assert not world.governor.accounts.tickets
    assert world.governor.accounts.no_reservations()
    world.governor.accounts.observe()
    assert world.booked() == sum(one.footprint().private for one in world.gates.values() if one.rung is Rung.HOT)
    assert world.booked() <= TOTAL * MB


@pytest.mark.slow
@given(
    worlds(), st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([0.0, 1.0, 10.0])), min_size=1, max_size=4)
)
@examples(60)
def test_long_answers_that_rest_keep_nobody_out_and_end_whole(
    world: SimulatedWorld, long: list[tuple[str, float]]
) -> None:
    """Each lasts two minutes, in parts of 1 s. Others wait no longer than beside answers of ``LONGEST``."""
    speeches = [Asked(name, 1000.0 + at, 120.0, part=1.0) for name, at in long if name in world.gates]
    others = [one for one in world.requests if one.model != "giant" and one.leaves == float("inf")]
    world.requests = [*world.requests, *speeches]
    world.play()
    assert all(one.error is None and one.left == 0.0 for one in speeches)
    assert all(one.error is None and one.began is not None for one in others)
    for one in others:
        queue = [other for other in [*others, *speeches] if other.model == one.model]
        if any(other.part < float("inf") for other in queue):
            continue  # in the queue of its own model it waits for the answer before it
        ahead = sum(other.arrived <= one.arrived and unserved(other, one.arrived) for other in world.requests)
        assert one.began is not None
        turns = turns_before(one.model, world.gates.values()) + turn_of(world.gates[one.model])
        assert one.began - one.arrived <= ahead * turns + 0.02
    assert world.governor.accounts.no_reservations()


def test_a_chat_every_four_seconds_does_not_keep_speech_out() -> None:
    """Each chat takes 5 ms and would renew a grace time of 5 s for ever."""
    chat = SimulatedGate("chat", 700, up=0.5, down=0.1, slots=4)
    speech = SimulatedGate("speech", 500, up=0.3, down=0.1, slots=1)
    asked = Asked("speech", 1010.0, 1.0)
    world = SimulatedWorld(TOTAL, [chat, speech], [*flood("chat", 4.0, 0.005), asked], random.Random(1))
    world.play()
    assert all(one.error is None for one in world.requests)
    assert asked.began == pytest.approx(1010.0 + chat.down + speech.up, abs=0.02), "no chat runs: it waits for nothing"


def test_a_voice_goes_on_beside_a_long_chat_that_holds_a_transcription_up() -> None:
    """The transcription needs the memory of both. Beyond the chat it waits for a part of the long speech at most."""
    chat = SimulatedGate("chat", 400, up=0.5, down=0.1, slots=4)
    voice = SimulatedGate("voice", 200, up=0.3, down=0.05, slots=2, rests=True)
    transcription = SimulatedGate("asr", 700, up=0.3, down=0.1, slots=1)
    long, asked = Asked("chat", 1000.0, 42.0), Asked("asr", 1005.0, 1.0)
    short = [Asked("voice", 1003.0 + number, 0.02) for number in range(60)]
    speech = Asked("voice", 1010.0, 60.0, part=1.0)
    world = SimulatedWorld(TOTAL, [chat, voice, transcription], [long, asked, *short, speech], random.Random(1))
    world.play()
    assert all(one.error is None and one.left == 0.0 for one in world.requests)
    waits = {one: one.began - one.arrived for one in world.requests if one.began is not None}
    ended = long.arrived + waits[long] + long.seconds
    assert ended < asked.arrived + waits[asked] < ended + speech.part + chat.down + voice.down + 0.02
    switch = speech.part + chat.down + voice.down + transcription.up
    assert max(waits[one] for one in short) < switch + asked.seconds + transcription.down + voice.up + 0.02
    left = [one.end for one in world.spans if (one.kind, one.model) == ("down", "voice")]
    assert min(left) > ended, "it stays hot meanwhile"


@pytest.mark.slow
def test_switching_takes_its_share_at_most_between_two_models_with_work() -> None:
    gates = [SimulatedGate(name, 700, up=2.0, down=0.5, slots=1) for name in "ab"]
    requests = [Asked(one.id, 1000.0, 1.0) for one in gates for _ in range(60)]
    world = SimulatedWorld(TOTAL, gates, requests, random.Random(1))
    world.play()
    switching = sum(one.end - one.start for one in world.spans if one.kind != "answer")
    ups = [one for one in world.spans if one.kind == "up"]
    assert len(ups) > 8, "they take turns"
    assert switching / (max(one.end for one in world.spans) - 1000.0) <= SWITCHING_SHARE


@pytest.mark.slow
def test_a_third_model_is_served_before_two_with_long_queues_have_a_second_turn() -> None:
    gates = [SimulatedGate(name, 700, up=0.1, down=0.1, slots=1) for name in "abc"]
    requests = [Asked(name, 1000.0, 0.5) for name in "ab" for _ in range(100)]
    third = Asked("c", 1005.0, 0.5)
    world = SimulatedWorld(TOTAL, gates, [*requests, third], random.Random(1))
    world.play()
    assert third.began is not None
    since = [one.model for one in world.spans if one.kind == "up" and 1005.0 <= one.start < third.began]
    assert since[-1] == "c"
    assert len(since) == len(set(since)), "no model has two turns"


def beside_a_large_request(*gates: SimulatedGate, grown: int, body: int = 0) -> list[float]:
    """Waits of short speeches beside a transcription, which the server's own growth leaves no room.

    ``grown``: MB of it. A stranger's ``body`` in MB stays, too. Chats go on without a gap for 60 s.
    """
    voice = SimulatedGate("voice", 40, up=0.1, down=0.1, slots=1, rests=True)
    large = SimulatedGate("asr", 200, up=0.3, down=0.1, slots=1)
    speeches = [Asked("voice", 1001.0 + 5 * number, 0.5) for number in range(12)]
    chats = [Asked("chat", 1000.0 + 0.9 * number, 1.0) for number in range(66)]
    requests = [*speeches, *chats, Asked("asr", 1010.0, 1.0)]
    world = SimulatedWorld(300, [voice, large, *gates], requests, random.Random(1))
    world.governor.accounts.note_overhead(world.probe.read())

    def grow() -> None:
        world.simulation.wait(8.0)
        world.governor.accounts.traffic.come(body * MB)
        world.probe.base = (grown + body) * MB

    world.simulation.spawn(grow)
    world.play()
    assert all(one.error is None for one in [*speeches, *chats])
    assert not world.governor.accounts.tickets
    return [one.began - one.arrived for one in speeches if one.began is not None]


def test_nobody_waits_for_a_moment_without_answers_of_a_pinned_engine() -> None:
    """Speech waited for 48 s, until the chats had a gap."""
    chat = SimulatedGate("chat", 40, up=0.1, down=0.1, slots=2, pinned=True)
    assert max(beside_a_large_request(chat, grown=70)) <= POLICY.switch_timeout


def test_engines_that_have_made_way_do_not_wait_for_a_strangers_files() -> None:
    """Speech and chats waited for 30 s, with all engines cold."""
    chat = SimulatedGate("chat", 40, up=0.1, down=0.1, slots=2)
    assert max(beside_a_large_request(chat, grown=60, body=50)) < POLICY.min_hot_seconds


class Leaving(SimulatedGate):
    """Its answers leave memory in the serving process, until the engine steps down."""

    def _go_on(self) -> None:
        super()._go_on()
        self.left = 60


def test_what_an_engine_that_waits_itself_has_is_not_the_servers_own() -> None:
    """It stays for its hot time, and its own thread alone moves it. Another request was refused with 507."""
    sizes = {"left": 890, "small": 300, "large": 890}
    gates = [
        (Leaving if name == "left" else SimulatedGate)(name, size, up=0.1, down=0.1, slots=1)
        for name, size in sizes.items()
    ]
    times = [("left", 0.0), ("small", 0.5), ("large", 0.6), ("left", 0.7)]
    requests = [Asked(model, 1000.0 + at, 1.0) for model, at in times]
    world = SimulatedWorld(TOTAL, gates, requests, random.Random(1))
    world.play()
    assert all(one.error is None and one.began is not None for one in requests)


def test_a_request_that_never_fits_moves_nobody_beside_answers() -> None:
    """It misses more than answers left. Its client could else have others reload again and again."""
    gates = [Leaving("chat", 40, up=0.1, down=0.1, slots=2), SimulatedGate("large", 910, up=0.1, down=0.1, slots=1)]
    chats = [Asked("chat", 1000.0 + 0.9 * number, 1.0) for number in range(20)]
    hopeless = [Asked("large", 1003.0 + number, 1.0) for number in range(10)]
    world = SimulatedWorld(TOTAL, gates, [*chats, *hopeless], random.Random(1))
    world.play()
    assert all(isinstance(one.error, DoesNotFit) for one in hopeless)
    assert [one.model for one in world.spans if one.kind == "up"] == ["chat"]


@pytest.mark.parametrize("slots", [1, 3])
def test_answers_without_a_gap_in_a_pinned_engine_have_no_request_refused_that_fits_between_them(slots: int) -> None:
    """A speech beside a pinned model that transcribes was refused with 507, though it fits beside the idle model."""
    pinned = SimulatedGate("pinned", 150, up=0.6, down=0.1, slots=slots, request=40, pinned=True)
    voice = SimulatedGate("voice", 740, up=0.3, down=0.1, slots=1)
    speeches = [Asked("voice", 1004.0, 0.1), Asked("voice", 1012.3, 0.1)]
    answers = flood("pinned", 0.5, 0.9)
    world = SimulatedWorld(TOTAL, [pinned, voice], [*speeches, *answers], random.Random(1))
    world.play()
    for one in world.requests:
        assert one.error is None
        assert one.began is not None
    for one in speeches:
        assert (one.began or 0) - one.arrived <= turn_of(pinned) - LONGEST + 2 * 0.9


def test_chats_of_a_pinned_model_hold_no_request_up_that_fits_beside_them() -> None:
    """It waited for long sound in another pinned model, which went on as if the chats were in its way: to their end."""
    chat = SimulatedGate("chat", 150, up=0.1, down=0.1, slots=2, pinned=True)
    sound = SimulatedGate("sound", 80, up=0.1, down=0.1, slots=1, request=60, pinned=True, rests=True)
    voice = SimulatedGate("voice", 640, up=0.3, down=0.1, slots=1)
    speech = Asked("voice", 1004.0, 0.1)
    long = [Asked("sound", 1000.0, 60.0, part=1.0) for _ in range(2)]
    world = SimulatedWorld(TOTAL, [chat, sound, voice], [speech, *long, *flood("chat", 0.5, 0.9)], random.Random(1))
    world.play()
    assert all(one.error is None for one in world.requests)
    assert (speech.began or 0) - speech.arrived <= 2.0
