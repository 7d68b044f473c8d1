"""The memory scenarios: what they configure, how they judge, what they write. Nothing is measured here."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

import pytest
from benchmarks.device import Device, Models, add_arguments, chosen
from benchmarks.memory_picture import draw, spread
from benchmarks.memory_scenarios import LAZY, NAIVE, SCENARIOS
from benchmarks.memory_tables import Results, above_hot, document, judge
from benchmarks.process import Memory
from benchmarks.sampling import Mark, Record, Sample
from benchmarks.scenario import ENGINE, Pace, Run
from benchmarks.targets import Climb, Cycle, Estimate, Step, drift, share_returned
from benchmarks.timeline import REFERENCE, Moment

from edgeserve import config
from edgeserve.jobs import JOBS


def memory(anonymous: float, file: float = 10.0) -> Memory:
    return Memory(anonymous + file, anonymous, file, anonymous + 2 * file)


def record(*sizes: float) -> Record:
    samples = [Sample(float(at), (memory(size),)) for at, size in enumerate(sizes)]
    return Record(samples, [Mark("POST /v1/chat", 1.0, 2.0), Mark("chat complete", 2.0, 2.0)])


def cycle(before: float, hot: float, after: float) -> Cycle:
    return Cycle("llm", memory(before), memory(hot), memory(after))


def results(*, idle: float = 60.0, warm_ms: float = 100.0, expected: float = 110.0, learned: float = 104.0) -> Results:
    """Everything measured well, unless said otherwise."""
    sizes, firsts = (memory(50), memory(200), memory(idle)), dict.fromkeys(JOBS, 0.1)
    run = {one.name: Run(one, record(50, 200, idle), *sizes, firsts) for one in (*SCENARIOS, NAIVE)}
    even = [Cycle(job, memory(50), memory(150), memory(50)) for _ in range(4) for job in JOBS]
    ways = [Climb(job, rung, at) for job in JOBS for rung, at in (("warm", 0.05 + warm_ms / 1000), ("hot", 0.05))]
    return Results(
        pace=Pace(),
        record=record(50, 200, 60),
        moments=[Moment(line, line.at / 15, memory(60)) for line in REFERENCE],
        scenarios=[run[one.name] for one in SCENARIOS],
        comparison={"naive": run["naive"], "hybrid": run["3 full stack"]},
        estimates=[Estimate(job, "estimate", expected, 100.0, 120.0) for job in JOBS],
        learned=[Estimate(job, "learned", learned, 100.0, 120.0) for job in JOBS],
        cycles=even,
        steps=[Step("asr", "offloaded", 100.0, 97.0)] * 3,
        climbs=ways,
    )


def missed(found: Results) -> set[str]:
    return {one.what for one in judge(found) if not one.met}


# Configuration


def device(folder: Path, **models: str) -> Device:
    return Device(folder, Models(**models), {"EDGESERVE_MODELS_DIR": str(folder / "models")}, b"")


def test_idle_periods_keep_their_proportions() -> None:
    assert Pace(60.0).residency == {"warm_after": 60.0, "idle_timeout": 300.0, "check_interval": 30.0}
    assert Pace(4.0).residency == {"warm_after": 4.0, "idle_timeout": 20.0, "check_interval": 2.0}
    assert Pace(4.0).seconds(30) == 2.0


@pytest.mark.parametrize("minutes", [1, 5])
def test_a_wait_outlasts_the_idle_time_and_a_round_of_the_monitor(minutes: int) -> None:
    pace = Pace(4.0)
    limit = {1: pace.residency["warm_after"], 5: pace.residency["idle_timeout"]}[minutes]
    assert pace.idle(minutes) > limit + pace.residency["check_interval"]


@pytest.mark.parametrize("scenario", [*SCENARIOS, NAIVE, LAZY], ids=lambda one: one.name)
def test_the_server_understands_what_is_written(tmp_path: Path, scenario: object) -> None:
    one = next(known for known in (*SCENARIOS, NAIVE, LAZY) if known is scenario)
    path = device(tmp_path, mmproj="/m/p.gguf").config(one.name, one.jobs, one.keys, residency=Pace().residency)
    read = config.load({}, path=path)
    assert tuple(read.models) == tuple(job for job in JOBS if job in one.jobs)
    assert (read.residency.warm_after, read.residency.idle_timeout) == (4.0, 20.0)
    assert all(engine.preload is engine.pinned is (one is NAIVE) for engine in read.models.values())
    assert {ENGINE[step] for step in one.steps} == set(one.jobs), "every engine is used, and no other"


def test_vision_runs_the_language_model_unless_another_is_named(tmp_path: Path) -> None:
    plain = tomllib.loads(device(tmp_path, mmproj='a "b".gguf').config("plain").read_text())
    assert plain["vision"] == {"model": Models().llm, "mmproj": 'a "b".gguf'}
    named = tomllib.loads(device(tmp_path, vision="smolvlm-256m").config("named").read_text())
    assert named["vision"] == {"model": "smolvlm-256m"}


def test_models_are_named_on_the_command_line() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert chosen(parser.parse_args([])) == Models()
    assert chosen(parser.parse_args(["--llm", "a.gguf", "--tts", "b"])) == Models(llm="a.gguf", tts="b")


def test_forgetting_removes_the_learned_peaks_and_nothing_else(tmp_path: Path) -> None:
    one = device(tmp_path)
    (tmp_path / "memory.json").write_text("{}")
    kept = one.config("models")
    one.forget()
    one.forget()
    assert list(tmp_path.iterdir()) == [kept]


# Judgement


def test_the_share_returned_is_of_what_was_taken_after_the_first_cycles() -> None:
    one_off = [cycle(50, 150, 120), cycle(120, 150, 140)]
    assert share_returned([*one_off, cycle(140, 240, 142), cycle(142, 240, 142)], "llm") == pytest.approx(0.99)


def test_drift_is_counted_from_the_end_of_the_second_cycle() -> None:
    grown = [cycle(50, 150, 120), cycle(120, 150, 140), cycle(140, 240, 141), cycle(141, 240, 143)]
    assert drift(grown) == 3.0
    assert drift(grown, "llm") == 3.0


def test_the_way_up_is_compared_by_medians() -> None:
    low = [Climb("tts", "cold", seconds) for seconds in (0.3, 0.4, 9.0)]
    hot = [Climb("tts", "hot", seconds) for seconds in (0.1, 0.1, 0.2)]
    rung, extra = above_hot([*low, *hot, Climb("asr", "warm", 5.0)], "tts")
    assert (rung, extra) == ("cold", pytest.approx(0.3))


def test_all_targets_are_met_by_a_good_server() -> None:
    assert missed(results()) == set()
    assert len(judge(results())) == 18


def test_each_target_can_be_missed() -> None:
    assert missed(results(idle=81.0)) == {"all engines used, then idle: Pss"}
    assert missed(results(warm_ms=151.0)) == {
        f"{job}: first {first} from warm, above hot"
        for job, first in {"llm": "token", "vision": "token", "asr": "text", "tts": "sound"}.items()
    }
    assert missed(results(expected=84.0)) == {f"{job}: estimate against measured" for job in JOBS}
    assert missed(results(learned=106.0)) == {f"{job}: learned against measured" for job in JOBS}


def test_what_was_not_measured_has_no_error_to_be_small() -> None:
    assert Estimate("tts", "estimate", 100.0, 0.0, 0.0).error == float("inf")


# Output


def test_the_document_holds_the_reference_beside_the_measured() -> None:
    text = document(results(), {"llm": "smollm2-135m-instruct"})
    assert "| 1 min idle | 60 | ~500 MB | 4.0 | 70 | 60 | 10 |" in text
    assert "| 3 full stack | 60 | 210 | 70 | ~5.4 GB | ~50 MB |" in text
    assert "| asr offloaded | 1 | 100.0 | 97.0 | 97% |" in text
    assert "llm smollm2-135m-instruct" in text
    assert "missed" not in text
    assert "**missed**" in document(results(idle=81.0), {})


def test_labels_stand_apart_and_in_order() -> None:
    assert spread([0.0, 0.1, 0.2, 5.0], gap=1.0) == [0.0, 1.0, 2.0, 5.0]
    assert spread([], gap=1.0) == []


@pytest.mark.slow
def test_the_picture_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "out.png"
    draw(results(), path)
    assert path.read_bytes().startswith(b"\x89PNG")
