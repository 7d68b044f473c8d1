"""The search among forms, by made-up figures, and one form of a real small engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.errors import ContextOverflow
from edgeserve.fit import form_trial, tuning
from edgeserve.fit.form_trial import changes, compare, measure_form, search, session
from edgeserve.fit.tuned import Form, Settings
from edgeserve.messages import FinishEvent, TokenEvent
from edgeserve.processes.interpreter import module_command

GAIN = {"repack": 2.0, "flash_attention": 0.9, "batch": 0.95, "threads_batch": 1.2, "threads": 0.8}
"""Speed by a changed setting."""


def figures(settings: Settings, climb: float = 0.1) -> Form:
    speed = 1.0
    for name in settings:
        speed *= GAIN[name]
    return Form(settings, climb, 100 * speed, 10 * speed)


def test_a_session_is_a_way_up_with_prompts_and_answers() -> None:
    assert session(Form({}, 2.0, 900.0, 300.0)) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("threads", "usable", "names"),
    [
        (2, 2, ["repack", "flash_attention", "batch", "batch"]),
        (8, 16, ["repack", "flash_attention", "batch", "batch", "threads_batch", "threads"]),
        (4, 4, ["repack", "flash_attention", "batch", "batch", "threads"]),
    ],
)
def test_changes_are_those_that_the_machine_can_make(threads: int, usable: int, names: list[str]) -> None:
    assert [name for one in changes(threads, usable) for name in one] == names


def test_each_change_is_tried_on_top_of_the_best() -> None:
    found = list(search(figures, 8, 16))
    assert [dict(form.settings) for form, _ in found] == [
        {},
        {"repack": "on"},
        {"repack": "on", "flash_attention": "off"},
        {"repack": "on", "batch": 512},
        {"repack": "on", "batch": 128},
        {"repack": "on", "threads_batch": 16},
        {"repack": "on", "threads_batch": 16, "threads": 7},
    ]
    assert [best for _, best in found] == [True, True, False, False, False, True, False]


def test_a_copy_that_takes_too_long_to_make_is_no_gain() -> None:
    found = list(search(lambda settings: figures(settings, 60.0 if "repack" in settings else 0.1), 2, 2))
    assert [best for _, best in found] == [True, False, False, False, False]


def test_a_gain_within_the_noise_is_none() -> None:
    found = list(search(lambda settings: Form(settings, 0.1, 101.0 if settings else 100.0, 10.0), 2, 2))
    assert [best for _, best in found] == [True, False, False, False, False]


def measured(old: Sequence[float], new: Sequence[float]) -> tuple[Form, bool, list[str]]:
    """Two forms compared, by their tokens a second in each pair; the names of the forms in the order of asking."""
    figures, asked = {"old": iter(old), "new": iter(new)}, list[str]()

    def measure(settings: Settings) -> Form:
        asked.append(str(settings["name"]))
        return Form(settings, 0.1, 100.0, next(figures[asked[-1]]))

    form, better = compare(measure, {"name": "old"}, {"name": "new"})
    return form, better, asked


def test_one_lucky_measurement_is_no_gain() -> None:
    assert not measured([10, 10, 10], [30, 10.1, 10.1])[1], "the median gains nothing"
    _, better, asked = measured([10, 10, 10], [30, 10, 30])
    assert not better
    assert asked == ["new", "old", "old", "new"], "a pair that it loses is the last"


def test_three_pairs_make_a_gain_and_their_median_is_its_figure() -> None:
    form, better, asked = measured([10, 10, 10], [12, 14, 13])
    assert better
    assert form.tokens == 13
    assert asked == ["new", "old", "old", "new", "new", "old"]


def test_other_programs_that_come_and_go_change_no_choice() -> None:
    """The box is half as fast in every second pair, and both forms of a pair are measured in it."""
    assert not measured([10, 5, 10], [10, 5, 10])[1]
    assert measured([10, 5, 10], [12, 6, 12])[1]


class Clocked:
    """An engine that takes a second for each prompt and a tenth for each token, by a clock of its own."""

    def __init__(self, pieces: int) -> None:
        self.now, self.pieces, self.prompts = 0.0, pieces, list[str]()
        self.steps: list[str] = []
        self.first: Exception | None = None

    def clock(self) -> float:
        return self.now

    def open(self) -> None:
        self.now += 5
        self.steps.append("open")

    def heat(self) -> None:
        self.now += 0.5
        self.steps.append("heat")

    def close(self) -> None:
        self.steps.append("close")

    def chat(self, request: Any, cancel: object) -> Iterator[object]:
        self.prompts.append(str(request.prompt))
        if len(self.prompts) == 1 and self.first is not None:
            raise self.first
        self.now += 0.9
        for _ in range(self.pieces):
            self.now += 0.1
            yield TokenEvent("x")
        yield FinishEvent("stop", 200, self.pieces)


def test_a_form_has_the_figures_of_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, specs = Clocked(20), list[ModelSpec]()

    def make(spec: ModelSpec) -> Clocked:
        specs.append(spec)
        return engine

    monkeypatch.setattr(form_trial, "make_engine", make)
    spec = ModelSpec("llm", "m", "x:Y", threads=4, options={"kv_type": "f16"})
    form = measure_form(spec, {"repack": "on", "threads": 3}, engine.clock)
    assert (form.climb, form.prompt, form.tokens) == pytest.approx((0.5, 200.0, 10.0))
    assert (specs[0].threads, dict(specs[0].options)) == (3, {**form_trial.FIXED, "kv_type": "f16", "repack": "on"})
    assert engine.steps == ["open", "heat", "close"]
    other, own = engine.prompts
    assert len(other) > 2 * len(own), "the other conversation, not measured, is the longer one"
    assert other.split()[0] != own.split()[0], "they share no prefix"


def test_a_model_of_a_short_context_is_measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Clocked(20)
    engine.first = ContextOverflow("1300 tokens and a context of 1024")
    monkeypatch.setattr(form_trial, "make_engine", lambda spec: engine)
    form = measure_form(ModelSpec("llm", "m", "x:Y"), {}, engine.clock)
    assert (form.prompt, form.tokens) == pytest.approx((200.0, 10.0))


@pytest.mark.models
def test_the_other_conversation_stays_in_the_context(
    pulled: Callable[[str], Mapping[str, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, close = list[int](), LlamaChat.close

    def closing(engine: LlamaChat) -> None:
        tokens.extend(slot.tokens for slot in engine.slot_states())
        close(engine)

    monkeypatch.setattr(LlamaChat, "close", closing)
    files = pulled("smollm2-135m-instruct")
    measure_form(ModelSpec("llm", "m", "edgeserve.engines.llama.chat:LlamaChat", files, "cpu", 2), {})
    assert min(tokens) > 500
    assert max(tokens) > 2 * min(tokens)


def test_an_engine_is_closed_when_its_answer_is_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Clocked(3)
    monkeypatch.setattr(form_trial, "make_engine", lambda spec: engine)
    with pytest.raises(ValueError, match="3 pieces"):
        measure_form(ModelSpec("llm", "m", "x:Y"), {}, engine.clock)
    assert engine.steps[-1] == "close"


def test_its_process_ends_with_the_program_that_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when that is killed: then nothing but the end of the standard input tells."""
    engine = "print('made', flush=True)\nimport signal\ndef make(spec): signal.pause()\n"
    (tmp_path / "endless_engine.py").write_text(engine)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    given = json.dumps({"job": "llm", "name": "m", "engine": "endless_engine:make", "files": {}})
    pipe = subprocess.PIPE
    with subprocess.Popen([*module_command(tuning.MODULE), given], stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "made\n"
            process.stdin.close()
            assert process.wait(60) == -signal.SIGTERM
        finally:
            process.kill()
