"""Tokens and prompts over HTTP, in the shapes of llama-server's own tests and of vLLM."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from support.server import fake_pool, serving

from edgeserve.api.llama_server import texts
from edgeserve.api.llama_server.texts import TEXT_CHARS
from edgeserve.messages import TextEvent

TALK = [{"role": "user", "content": "hello"}]


def post(client: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_text_becomes_tokens_and_the_tokens_the_text(client: httpx.Client) -> None:
    """As test_tokenize_detokenize of llama-server's suite."""
    tokens = post(client, "/tokenize", {"content": "What is?"})["tokens"]
    assert tokens == list(map(ord, "What is?"))
    assert post(client, "/detokenize", {"tokens": tokens})["content"] == "What is?"


def test_special_tokens_are_added_when_asked_for(client: httpx.Client) -> None:
    """As test_tokenize_w_bos."""
    plain = post(client, "/tokenize", {"content": "hi"})["tokens"]
    assert post(client, "/tokenize", {"content": "hi", "add_special": True})["tokens"] == [1, *plain]


def test_pieces_come_with_their_ids(client: httpx.Client) -> None:
    """As test_tokenize_with_pieces."""
    told = post(client, "/tokenize", {"content": "aé", "with_pieces": True})
    assert told == {"tokens": [{"id": 97, "piece": "a"}, {"id": 233, "piece": "é"}]}


def test_a_part_of_a_character_is_a_list_of_bytes() -> None:
    event = TextEvent(tokens=(1, 2), pieces=(b"a", b"\xf0\x9f"))
    assert told(texts.with_pieces, event) == {"tokens": [{"id": 1, "piece": "a"}, {"id": 2, "piece": [240, 159]}]}


def told(shape: texts.Told, event: TextEvent) -> Any:
    renderer = texts.TextAnswer(shape)
    renderer.feed(0, event)
    return json.loads(renderer.end())


@pytest.mark.parametrize("count", [0, 1, texts.AT_ONCE, texts.AT_ONCE + 1, 3 * texts.AT_ONCE])
def test_long_answers_are_written_in_parts(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other thread runs while ``json`` writes: two million tokens in one call stopped every stream for seconds."""
    written: list[int] = []

    def dumps(value: Any, **settings: Any) -> str:
        written.append(len(value) if isinstance(value, list) else 1)
        return json.dumps(value, **settings)

    monkeypatch.setattr(texts, "json", SimpleNamespace(dumps=dumps))
    event = TextEvent(tokens=tuple(range(count)), pieces=(b"x",) * count)
    assert told(texts.bare, event) == {"tokens": list(range(count))}
    assert told(texts.with_pieces, event) == {"tokens": [{"id": one, "piece": "x"} for one in range(count)]}
    assert told(texts.counted, event)["token_strs"] == (["x"] * count or None)
    assert max(written) <= texts.AT_ONCE


def test_nothing_has_no_tokens(client: httpx.Client) -> None:
    assert post(client, "/tokenize", {"content": ""}) == {"tokens": []}
    assert post(client, "/tokenize", {}) == {"tokens": []}
    assert post(client, "/detokenize", {"tokens": []}) == {"content": "", "prompt": ""}


def test_vllms_requests_get_vllms_answers(client: httpx.Client) -> None:
    told = post(client, "/tokenize", {"model": "llm", "prompt": "hi"})
    assert told == {"count": 3, "max_model_len": 1024, "tokens": [1, 104, 105], "token_strs": None}
    strings = {"prompt": "hi", "add_special_tokens": False, "return_token_strs": True}
    assert post(client, "/tokenize", strings)["token_strs"] == ["h", "i"]
    told = post(client, "/tokenize", {"messages": TALK})
    assert (told["count"], told["tokens"]) == (5, list(map(ord, "hello")))
    assert post(client, "/detokenize", {"model": "llm", "tokens": told["tokens"]})["prompt"] == "hello"


def test_a_conversation_is_written_as_its_prompt(client: httpx.Client) -> None:
    body = {"messages": TALK, "temperature": 0.5, "max_tokens": 3}
    assert post(client, "/apply-template", body) == {"prompt": "hello"}
    told = post(client, "/v1/chat/completions/input_tokens", body)
    assert told == {"object": "response.input_tokens", "input_tokens": 5}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {"content": "a", "prompt": "b"}, "prompt"),
        ("/tokenize", {"content": 5}, "content"),
        ("/tokenize", {"content": "x" * (TEXT_CHARS + 1)}, "content"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [1.5]}, "tokens"),
        ("/detokenize", {"tokens": [2**31 - 1]}, "tokens"),  # the engine knows its vocabulary
        ("/apply-template", {}, "messages"),
    ],
)
def test_mistakes_name_their_field(client: httpx.Client, path: str, body: dict[str, Any], param: str) -> None:
    answer = client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text


@pytest.mark.slow
def test_the_longest_text_is_cut(client: httpx.Client) -> None:
    assert len(post(client, "/tokenize", {"content": "x" * TEXT_CHARS})["tokens"]) == TEXT_CHARS


def test_without_a_chat_model_there_are_no_tokens() -> None:
    with serving(fake_pool(["tts"])) as running:
        answer = running.client.post("/tokenize", json={"content": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "engine_not_configured")
