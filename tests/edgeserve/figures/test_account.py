from __future__ import annotations

from support.gates import Clock

from edgeserve.figures.account import Account, current, outgoing
from edgeserve.figures.answer import Answer, Times
from edgeserve.figures.trace import Trace
from edgeserve.messages import FinishEvent, TokenEvent

TRACE = Trace("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1)


def answer(first: float, tokens: int) -> Answer:
    found = Answer(Clock(first))
    found.see(TokenEvent("word"))
    found.see(FinishEvent("stop", 10, tokens, 4))
    return found


def test_sums_over_the_answers_of_a_request() -> None:
    account = Account()
    account.asks("llm", "small")
    account.add(answer(3.0, 5), Times(1.0, 1.5, 4.0))
    account.add(answer(6.0, 7), Times(1.0, 3.0, 9.0))
    assert account.told() == {
        "queue_ms": 2000.0,
        "ttft_ms": 2000.0,
        "prompt_tokens": 20,
        "cached_tokens": 8,
        "completion_tokens": 12,
    }
    assert account.about == {"engine": "llm", "model": "small"}
    assert account.attributes()["gen_ai.operation.name"] == "chat"


def test_a_request_without_a_model_tells_nothing_of_one() -> None:
    account = Account(TRACE)
    assert account.told() == {}
    assert account.about == {"trace_id": TRACE.trace}
    assert account.attributes() == {"http.route": "other"}


def test_an_answer_without_its_turn_has_no_times() -> None:
    account = Account()
    account.add(Answer(Clock()), Times(1.0, None, 4.0))
    assert account.told() == {}


def test_the_trace_goes_on_to_other_servers() -> None:
    assert outgoing() == {}
    token = current.set(Account(TRACE))
    try:
        assert outgoing() == {"traceparent": str(TRACE)}
        current.set(Account())
        assert outgoing() == {}
    finally:
        current.reset(token)
