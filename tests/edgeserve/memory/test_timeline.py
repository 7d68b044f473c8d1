"""The timeline: what a listener reads is what was written, in bounded memory, whoever is slow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples
from support.gates import Clock

from edgeserve.memory import timeline as rings
from edgeserve.memory.timeline import Held, Point, Sample, Timeline


def sample(number: int = 0) -> Sample:
    return Sample(0, 10, number, 20, 900, 800, 1000)


def held(private: int = 5, rung: int = 2) -> Held:
    return Held(rung, private, 7, 1, 3)


class World:
    """A timeline with its clocks."""

    def __init__(self, **limits: int) -> None:
        self.clock, self.wall = Clock(50.0), Clock(1_700_000_000.0)
        self.line = Timeline(self.clock, self.wall, **limits)

    def second(self, number: int, **models: Held) -> None:
        self.clock.now += 1
        self.wall.now += 1
        self.line.record(sample(number), models)


def test_a_listener_reads_the_past_and_then_each_sample() -> None:
    world = World()
    world.second(1, llm=held())
    world.second(2, llm=held())
    world.second(3, llm=held(6), asr=held(1, rung=0))
    place = world.line.place(1000)
    first, *rest = world.line.read(place, 100)
    assert first == Point(51.0, sample(1), {"llm": held()})
    assert [(point.sample.private, point.models) for point in rest] == [
        (2, {}),
        (3, {"llm": held(6), "asr": held(1, rung=0)}),
    ]
    assert world.line.read(place, 100) == []
    world.second(4, asr=held(1, rung=0))
    (last,) = world.line.read(place, 100)
    assert last.models == {"llm": None}


@each(("past", "numbers"), [(0, [3]), (1, [2, 3]), (1.5, [2, 3]), (2, [1, 2, 3]), (99, [1, 2, 3])])
def test_as_much_of_the_past_as_is_asked_for(past: float, numbers: list[int]) -> None:
    world = World()
    for number in (1, 2, 3):
        world.second(number, llm=held(number))
    points = world.line.read(world.line.place(past), 100)
    assert [point.sample.private for point in points] == numbers
    assert points[0].models == {"llm": held(numbers[0])}, "the first has all models"


def test_a_listener_reads_in_parts() -> None:
    world = World()
    for number in range(5):
        world.second(number, llm=held(number))
    place = world.line.place(100)
    assert [[one.sample.private for one in world.line.read(place, 2)] for _ in range(4)] == [[0, 1], [2, 3], [4], []]


def test_before_the_first_sample_there_is_nothing() -> None:
    world = World()
    place = world.line.place(1800)
    assert world.line.read(place, 10) == []
    assert world.line.happenings(place) == []
    world.second(1, llm=held())
    assert world.line.read(place, 10)[0].models == {"llm": held()}


def test_happenings_come_once_each() -> None:
    world = World()
    world.line.note("step_down", "llm", reason="idle")
    world.second(1)
    place, later = world.line.place(100), world.line.place(0.5)
    world.line.note("refusal", "asr", why="no room")
    assert [one.kind for one in world.line.happenings(place)] == ["step_down", "refusal"]
    (one,) = world.line.happenings(later)
    assert (one.at, one.model, one.details) == (51.0, "asr", {"why": "no room"})
    assert world.line.happenings(place) == []


def test_a_client_cannot_fill_the_happenings() -> None:
    world = World()
    for _ in range(3):
        world.line.note_rarely("refusal", "llm", why="no room")
        world.line.note_rarely("refusal", "asr", why="no room")
    world.clock.now += rings.RARELY
    world.line.note_rarely("refusal", "llm", why="no room")
    assert [one.model for one in world.line.happenings(world.line.place(100))] == ["llm", "asr", "llm"]


def test_happenings_are_bounded() -> None:
    world = World()
    place = world.line.place(0)
    for number in range(rings.HAPPENINGS + 10):
        world.line.note("saving", saved_mb=number)
    found = [one.details["saved_mb"] for one in world.line.happenings(place)]
    assert found == list(range(10, rings.HAPPENINGS + 10))


def test_a_wall_clock_that_is_set_moves_the_past_too() -> None:
    """A Raspberry Pi learns the time from the network, some time after the server has started."""
    world = World()
    world.second(1)
    world.wall.now += 1_000_000
    (point,) = world.line.read(world.line.place(100), 10)
    assert world.line.wall(point.at) == 1_701_000_001.0


def test_listeners_are_woken_while_they_listen() -> None:
    world, woken = World(), []
    with world.line.listening(lambda: woken.append("one")), world.line.listening(lambda: woken.append("two")):
        world.second(1)
        world.line.note("pressure")
    world.second(2)
    assert woken == ["one", "two"] * 2


MODELS = st.dictionaries(st.sampled_from("abcd"), st.builds(held, st.integers(0, 3), st.integers(0, 2)))
STEPS = st.lists(st.one_of(MODELS, st.integers(1, 5)), max_size=60)


@examples(200)
@given(STEPS)
def test_whoever_reads_when_knows_what_was_written(steps: list[dict[str, Held] | int]) -> None:
    """Small rings, so that listeners fall behind. A step writes a sample, or lets the listener read some."""
    world = World(samples=7, changes=5)
    written: list[dict[str, Held]] = []
    read: list[int] = []
    known: dict[str, Held] = {}
    place = world.line.place(1000)
    for step in (*steps, 1000):
        if not isinstance(step, int):
            world.second(len(written), **step)
            written.append(step)
            continue
        for point in world.line.read(place, step):
            read.append(point.sample.private)
            for name, one in point.models.items():
                if one is None:
                    known.pop(name, None)
                else:
                    known[name] = one
            assert known == written[point.sample.private]
    assert read == sorted(set(read)), "each once, in order"
    assert not written or read[-1] == len(written) - 1
    later = world.line.read(world.line.place(1000), 1000)
    assert [one.sample.private for one in later] == list(range(len(written) - len(later), len(written)))
    assert len(later) <= 7


def test_it_stays_within_its_memory() -> None:
    """Forty models of changing names, each of them another in every sample."""
    world = World()
    for number in range(400):
        world.second(number, **{f"m{number % 20}-{one}": held(number) for one in range(40)})
    line = world.line
    assert line.size == 400 * 32 + rings.CHANGES * 28
    assert rings.SAMPLES * 32 + rings.CHANGES * 28 <= 160_000
    assert len(line._names) == len(line._numbers) <= 2 * rings.NAMES
    assert line.read(line.place(1000), 1000)[-1].models


def test_names_that_no_row_has_are_forgotten() -> None:
    world = World(changes=100)
    for number in range(3 * rings.NAMES):
        world.second(number, **{f"m{number}": held()})
    assert len(world.line._names) == len(world.line._numbers) <= rings.NAMES
    assert world.line.read(world.line.place(5), 10)[-1].models == {"m1534": None, "m1535": held()}
