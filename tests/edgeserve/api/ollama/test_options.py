"""Options and ``think`` as the engine gets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.cases import each
from support.gates import engine_of
from support.server import Running, fake_pool, serving

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.ollama.options import Options
from edgeserve.errors import InvalidRequest
from edgeserve.messages import ChatRequest, FinishEvent, Sampling


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Running, list[ChatRequest]]]:
    """A server, and the requests that its engine got."""
    with serving(fake_pool(["llm"], abilities="thinking")) as running:
        engine: Any = engine_of(running.pool.gates["llm"])
        seen: list[ChatRequest] = []

        def chat(request: ChatRequest, cancel: Any) -> Iterator[Any]:
            seen.append(request)
            yield FinishEvent("stop", 1, 1)

        engine.chat = chat
        yield running, seen


def asked(served: tuple[Running, list[ChatRequest]], **body: Any) -> ChatRequest:
    running, seen = served
    said = {"messages": [{"role": "user", "content": "hello"}], "stream": False, **body}
    running.client.post("/api/chat", json=said).raise_for_status()
    return seen[-1]


def test_every_option_of_sampling_reaches_the_engine(served: tuple[Running, list[ChatRequest]]) -> None:
    options = {
        "temperature": 2.5,
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.05,
        "typical_p": 0.7,
        "seed": 7,
        "repeat_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "repeat_last_n": 33,
        "mirostat": 2,
        "mirostat_tau": 5,
        "mirostat_eta": 0.1,
    }
    assert asked(served, options=options).sampling == Sampling(**options)


def test_the_length_and_the_end(served: tuple[Running, list[ChatRequest]]) -> None:
    found = asked(served, options={"num_predict": 9, "num_ctx": 8192, "stop": ["a", ""], "num_gpu": 99, "tfs_z": 1})
    assert (found.max_tokens, found.context, found.stop) == (9, 8192, ("a",))
    none = asked(served, options={"num_predict": -1, "num_ctx": 0, "seed": -1, "top_k": -1})
    assert (none.max_tokens, none.context, none.sampling.seed, none.sampling.top_k) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("think", "thinking", "level"), [(None, None, ""), (False, False, ""), (True, True, ""), ("low", True, "low")]
)
def test_think_turns_thoughts_on_and_off(
    served: tuple[Running, list[ChatRequest]], think: Any, thinking: bool | None, level: str
) -> None:
    found = asked(served, think=think)
    assert found.thinking is thinking
    assert json.loads(found.variables or "{}") == ({"reasoning_effort": level} if level else {})


def test_unknown_options_are_named_and_change_nothing(served: tuple[Running, list[ChatRequest]]) -> None:
    running, _ = served
    body = {"messages": [{"role": "user", "content": "hello"}], "options": {"colour": 1}, "stream": False}
    answer = running.client.post("/api/chat", json=body)
    assert (answer.status_code, answer.headers["x-edgeserve-ignored"]) == (200, "options.colour")


@each("wrong", [{"top_k": "many"}, {"stop": 3}, {"mirostat": 9}, {"num_predict": 1.5}, {"use_mmap": 1}])
def test_a_wrong_type_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        Options(Fields(wrong), Limits())
