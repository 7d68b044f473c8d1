"""The choice: the governor's plan decides what fits, alone and together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples
from support.memory import POLICY, readings

from edgeserve.engine import Footprint
from edgeserve.fit.choice import SERVER, Box, Candidate, judge, together
from edgeserve.fit.memory import Expected
from edgeserve.fit.speed import Speed
from edgeserve.jobs import ALL_JOBS, Job
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.models.entry import Entry
from edgeserve.units import GB, MB


def candidate(
    name: str,
    mb: int,
    job: Job = "llm",
    *,
    speed: float | None = 20.0,
    private: int = 0,
    parameters: int = 0,
    pulled: bool = False,
    disk: int | None = None,
    lacks: str = "",
) -> Candidate:
    entry = Entry(name, job, "", "MIT", mb * MB, (), parameters=parameters)
    unit = "times real time" if job == "asr" else "tokens/s"
    known = None if speed is None or job == "tts" else Speed(speed, unit)  # type: ignore[arg-type]
    memory = Expected(Footprint(mapped=mb * MB, private=private * MB), "catalogue")
    return Candidate(job, entry, memory, known, pulled, disk, lacks)


def box(mb: int, policy: MemoryPolicy = POLICY) -> Box:
    return Box(readings(mb * MB), policy)


def verdicts(found: list[Candidate], mb: int = 4096) -> list[tuple[str, str, bool]]:
    return [(one.candidate.entry.name, one.reason, one.best) for one in judge(found, box(mb))]


def test_the_best_that_fits_and_is_quick_comes_first() -> None:
    found = [
        candidate("small", 100),
        candidate("large", 3000),
        candidate("slow", 3500, speed=1),
        candidate("huge", 9000),
    ]
    assert verdicts(found) == [
        ("large", "", True),
        ("small", "", False),
        ("slow", "slow here", False),
        ("huge", "needs 8.8 GB; at most 3.6 GB fit", False),
    ]


def test_parameters_rank_before_bytes() -> None:
    assert verdicts([candidate("q8", 600, parameters=5), candidate("q4", 400, parameters=9)])[0][0] == "q4"


def test_jobs_keep_their_order_and_each_has_its_best() -> None:
    found = [
        candidate("voice", 50, "tts"),
        candidate("ear", 50, "asr"),
        candidate("chat", 50),
        candidate("ear2", 60, "asr"),
    ]
    assert verdicts(found) == [("chat", "", True), ("ear2", "", True), ("ear", "", False), ("voice", "", True)]


@each(
    ("job", "speed", "quick"),
    [
        ("llm", 5.0, True),
        ("llm", 4.9, False),
        ("asr", 2.0, True),
        ("asr", 1.9, False),
        ("embedding", 49.0, False),
        ("tts", None, True),
    ],
)
def test_people_do_not_wait_for_a_quick_model(job: Job, speed: float | None, quick: bool) -> None:
    ((_, reason, best),) = verdicts([candidate("m", 10, job, speed=speed)])
    assert (reason, best) == ("" if quick else "slow here", quick)


def test_a_disk_that_is_full_matters_only_before_the_pull() -> None:
    found = [candidate("here", 200, pulled=True, disk=1), candidate("there", 300, disk=100 * MB)]
    assert verdicts(found) == [("here", "", True), ("there", "the disk has 100 MB free", False)]


def test_a_missing_package_is_named() -> None:
    assert verdicts([candidate("voice", 10, "tts", lacks="piper-tts")]) == [("voice", "needs piper-tts", False)]


def test_a_vision_model_above_the_share_of_the_memory_does_not_suit() -> None:
    found = judge([candidate("eye", 800, "vision")], box(1000))
    assert [(one.fits, one.reason) for one in found] == [(False, "larger than 70% of the memory")]


def test_private_memory_stays_below_the_critical_share() -> None:
    """900 of 1,000 MB is critical. The memory of the serving process counts with the engine's."""
    room = 900 - SERVER // MB
    assert verdicts([candidate("m", 0, private=room - 1)], 1000)[0][1] == ""
    assert "at most" in verdicts([candidate("m", 0, private=room + 1)], 1000)[0][1]


def test_models_run_together_and_move_up_in_turns() -> None:
    found = [
        *(candidate(f"chat-{mb}", mb) for mb in (100, 500, 2000)),
        *(candidate(f"ear-{mb}", mb, "asr") for mb in (100, 400)),
        candidate("voice-100", 100, "tts"),
    ]

    def names(mb: int) -> list[str]:
        return [one.entry.name for one in together(judge(found, box(mb)), box(mb))]

    assert names(4096) == ["chat-2000", "ear-400", "voice-100"]
    assert names(1300) == ["chat-500", "ear-400", "voice-100"]
    assert names(700) == ["chat-100", "ear-400", "voice-100"], "the first cannot move, the second can"
    assert names(300) == ["chat-100", "ear-100"], "the last job is left out"
    assert names(90) == []


def test_a_step_that_does_not_fit_is_passed_over() -> None:
    found = [candidate("a", 100, parameters=1), candidate("b", 900, parameters=2), candidate("c", 300, parameters=3)]
    limit = box(700)
    assert [one.entry.name for one in together(judge(found, limit), limit)] == ["c"]


sizes = st.integers(1, 3000)
models = st.lists(st.tuples(st.sampled_from(ALL_JOBS), sizes, st.integers(0, 900)), max_size=12)


@examples(150)
@given(models, st.integers(64, 8192))
def test_what_is_advised_together_fits_together(given: list[tuple[Job, int, int]], mb: int) -> None:
    found = [candidate(str(number), size, job, private=own) for number, (job, size, own) in enumerate(given)]
    limit = box(mb)
    judged = judge(found, limit)
    chosen = together(judged, limit)
    assert sum(one.amount.total for one in chosen) + SERVER * bool(chosen) <= mb * MB
    assert len({one.job for one in chosen}) == len(chosen)
    assert {one.entry.name for one in chosen} <= {one.candidate.entry.name for one in judged if one.suits}
    if any(one.suits for one in judged):
        assert chosen, "a model that fits alone is advised"


def test_other_programs_do_not_change_the_advice() -> None:
    busy = Box(readings(8 * GB, available=1 * GB), POLICY)
    assert busy.budget.usable == Box(readings(8 * GB), POLICY).budget.usable
