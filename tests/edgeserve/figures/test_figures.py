from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.gates import Clock, fake_spec

from edgeserve import errors
from edgeserve.engine import Rung
from edgeserve.figures.account import Account, current
from edgeserve.figures.answer import Answer, Times
from edgeserve.figures.figures import REASONS, Figures
from edgeserve.figures.moves import LOAD, Move
from edgeserve.figures.trace import Trace
from edgeserve.messages import AudioEvent, EmbeddingEvent, Event, FinishEvent, TokenEvent

LLM, TTS = fake_spec("llm"), fake_spec("tts")
MODEL = ("llm", "llm")


class KeptSpan:
    """Keeps the parts of a request."""

    trace = Trace("1" * 32, "2" * 16, 1)

    def __init__(self) -> None:
        self.parts: list[tuple[str, float, float, Mapping[str, Any]]] = []

    def child(self, name: str, began: float, ended: float, attributes: Mapping[str, Any]) -> None:
        self.parts.append((name, began, ended, attributes))

    def end(self, attributes: Mapping[str, Any], *, failed: bool) -> None: ...


def answer(*events: Event, at: float = 3.0) -> Answer:
    found = Answer(Clock(at))
    for event in events:
        found.see(event)
    return found


def whole(tokens: int = 5) -> Answer:
    return answer(TokenEvent("one"), TokenEvent("two"), FinishEvent("stop", 10, tokens, 4))


def observed(figures: Figures, name: str) -> tuple[int, float]:
    """Count and sum of all observations."""
    rows = dict(figures.histograms[name])
    return sum(one.count for one in rows.values()), sum(one.sum for one in rows.values())


def counted(figures: Figures, name: str) -> dict[tuple[str, ...], float]:
    return dict(figures.counters[name])


def test_a_whole_answer() -> None:
    figures = Figures()
    figures.ended(LLM, whole(), Times(1.0, 2.0, 7.0), None, None)
    assert counted(figures, "answers_total") == {(*MODEL, "stop"): 1}
    assert counted(figures, "prompt_tokens_total") == {MODEL: 10}
    assert counted(figures, "prompt_cached_tokens_total") == {MODEL: 4}
    assert counted(figures, "generation_tokens_total") == {MODEL: 5}
    assert counted(figures, "refusals_total") == {}
    times = {
        "queue_seconds": (1, 1.0),
        "prefill_seconds": (1, 1.0),
        "time_to_first_token_seconds": (1, 2.0),
        "inter_token_seconds": (4, 4.0),
        "request_duration_seconds": (1, 6.0),
    }
    assert {name: observed(figures, name) for name in times} == times


def test_an_answer_of_one_token_has_no_interval() -> None:
    figures = Figures()
    figures.ended(LLM, whole(1), Times(1.0, 2.0, 3.0), None, None)
    assert observed(figures, "inter_token_seconds") == (0, 0)


def test_an_answer_that_was_cut_counts_what_came_and_no_whole_time() -> None:
    figures = Figures()
    figures.ended(LLM, answer(TokenEvent("a"), TokenEvent("b")), Times(1.0, 2.0, 4.0), errors.Cancelled("gone"), None)
    assert counted(figures, "answers_total") == {(*MODEL, "cancelled"): 1}
    assert counted(figures, "generation_tokens_total") == {MODEL: 2}
    assert observed(figures, "request_duration_seconds") == (0, 0)
    assert observed(figures, "queue_seconds") == (1, 1.0)
    assert counted(figures, "refusals_total") == {}


def test_an_answer_without_its_turn_is_only_counted() -> None:
    figures = Figures()
    figures.ended(LLM, answer(), Times(1.0, None, 4.0), errors.DoesNotFit("too large"), None)
    assert counted(figures, "answers_total") == {(*MODEL, errors.DoesNotFit.code): 1}
    assert counted(figures, "refusals_total") == {(*MODEL, "memory"): 1}
    assert [name for name in figures.histograms if observed(figures, name)[0]] == []


@pytest.mark.parametrize("kind", [errors.Busy, errors.ShuttingDown, errors.MemoryPressure, errors.InvalidRequest])
def test_only_errors_of_room_are_refusals(kind: type[errors.EdgeserveError]) -> None:
    figures = Figures()
    figures.refused(LLM, kind("no"))
    reason = REASONS.get(kind.code)
    assert counted(figures, "refusals_total") == ({(*MODEL, reason): 1} if reason else {})


def test_speech_by_its_seconds() -> None:
    figures = Figures()
    figures.ended(TTS, answer(AudioEvent(bytes(96_000), 24_000)), Times(1.0, 2.0, 3.0), None, None)
    assert counted(figures, "audio_seconds_total") == {("tts", "tts", "spoken"): 2.0}
    assert observed(figures, "real_time_factor") == (1, 0.5)
    assert counted(figures, "answers_total") == {("tts", "tts", "done"): 1}
    assert observed(figures, "time_to_first_token_seconds") == (1, 2.0)
    assert observed(figures, "prefill_seconds") == (0, 0)


def test_embeddings_read_a_prompt_and_write_nothing() -> None:
    figures = Figures()
    figures.ended(LLM, answer(EmbeddingEvent(b"", 6)), Times(1.0, 2.0, 3.0), None, None)
    assert counted(figures, "prompt_tokens_total") == {MODEL: 6}
    assert counted(figures, "generation_tokens_total") == {}


def test_the_parts_of_a_request_for_its_trace() -> None:
    figures, span = Figures(), KeptSpan()
    account = Account(span.trace, span)
    figures.ended(LLM, whole(), Times(1.0, 2.0, 7.0), None, account)
    figures.ended(LLM, answer(), Times(8.0, None, 9.0), errors.Busy("full"), account)
    assert [part[:3] for part in span.parts] == [
        ("queue", 1.0, 2.0),
        ("prefill", 2.0, 3.0),
        ("decode", 3.0, 7.0),
        ("queue", 8.0, 9.0),
    ]
    assert span.parts[2][3] == {"gen_ai.usage.output_tokens": 5, "gen_ai.response.finish_reasons": ("stop",)}
    assert account.told()["completion_tokens"] == 5


def test_moves_and_what_came_back() -> None:
    figures, span = Figures(), KeptSpan()
    token = current.set(Account(span.trace, span))
    try:
        figures.moved(LLM, Move(Rung.WARM, Rung.HOT, LOAD, 1.0, 3.0))
        figures.moved(LLM, Move(Rung.HOT, Rung.COLD, "memory_needed", 4.0, 4.5, expected=100, freed=90))
        figures.moved(LLM, Move(Rung.COLD, Rung.WARM, "mapped"))
    finally:
        current.reset(token)
    assert counted(figures, "transitions_total") == {
        (*MODEL, "warm", "hot", "load"): 1,
        (*MODEL, "hot", "cold", "memory_needed"): 1,
        (*MODEL, "cold", "warm", "mapped"): 1,
    }
    assert {labels: one.sum for labels, one in figures.histograms["transition_seconds"]} == {
        (*MODEL, "hot"): 2.0,
        (*MODEL, "cold"): 0.5,
    }
    assert counted(figures, "reclaimed_bytes_total") == {MODEL: 90}
    assert counted(figures, "reclaim_expected_bytes_total") == {MODEL: 100}
    assert [part[:3] for part in span.parts] == [("transition", 1.0, 3.0), ("transition", 4.0, 4.5)]
    assert span.parts[1][3]["edgeserve.bytes"] == 90
