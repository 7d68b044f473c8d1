"""Times of an answer's parts, with a clock of the test."""

from __future__ import annotations

from support.gates import Clock

from edgeserve.api.timings import Timings
from edgeserve.messages import FinishEvent


def test_the_prompts_time_is_from_its_turn_to_the_first_token() -> None:
    clock = Clock()
    start = clock.now
    clock.now = start - 5.0
    timings = Timings(clock)
    clock.now = start
    timings.begin()
    clock.now = start + 2.0
    timings.begin()
    timings.token()
    clock.now = start + 2.5
    timings.token()
    clock.now = start + 4.0
    assert timings.told(FinishEvent("stop", 10, 8, cached_tokens=6)) == {
        "cache_n": 6,
        "prompt_n": 4,
        "prompt_ms": 2000.0,
        "prompt_per_token_ms": 500.0,
        "prompt_per_second": 2.0,
        "predicted_n": 8,
        "predicted_ms": 2000.0,
        "predicted_per_token_ms": 250.0,
        "predicted_per_second": 4.0,
    }


def test_an_answer_without_tokens_divides_by_nothing() -> None:
    told = Timings(Clock()).told(FinishEvent("stop", 0, 0))
    assert (told["predicted_per_second"], told["prompt_per_token_ms"], told["predicted_ms"]) == (0.0, 0.0, 0.0)
