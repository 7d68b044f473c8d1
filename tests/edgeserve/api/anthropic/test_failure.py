"""Errors in Anthropic's shape."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from support.cases import each
from support.server import fake_pool, serving

from edgeserve import errors
from edgeserve.api import failures
from edgeserve.api.anthropic.failure import PATHS
from edgeserve.errors import EdgeserveError

SAID = [{"role": "user", "content": "one two"}]


def told(error: EdgeserveError) -> tuple[str, str]:
    body = failures.body(error, PATHS)
    assert body["type"] == "error"
    return body["error"]["type"], body["error"]["message"]


@each(
    ("error", "kind"),
    [
        (errors.InvalidRequest("x"), "invalid_request_error"),
        (errors.UnsupportedMedia("x"), "invalid_request_error"),
        (errors.RequestTimeout("x"), "invalid_request_error"),
        (errors.Unauthorized("x"), "authentication_error"),
        (errors.Forbidden("x"), "permission_error"),
        (errors.ModelNotFound("x"), "not_found_error"),
        (errors.TooLarge("x"), "request_too_large"),
        (errors.EngineFailure("x"), "api_error"),
        (errors.ModelMissing("x"), "api_error"),
        (errors.DoesNotFit("x"), "api_error"),
        (errors.Busy("x"), "overloaded_error"),
        (errors.MemoryPressure("x"), "overloaded_error"),
        (errors.ShuttingDown("x"), "overloaded_error"),
    ],
)
def test_types(error: EdgeserveError, kind: str) -> None:
    assert told(error) == (kind, "x")


def test_a_prompt_too_long_is_told_in_anthropics_words() -> None:
    error = errors.ContextOverflow("the prompt is too large", figures=(210118, 200000))
    kind, words = told(error)
    assert kind == "invalid_request_error"
    assert words.startswith("prompt is too long: 210118 tokens > 200000 maximum")
    assert told(errors.ContextOverflow("without figures"))[1] == "without figures"


def test_a_message_of_half_a_character_can_be_written() -> None:
    json.dumps(failures.body(errors.InvalidRequest("\ud800", param="\ud800"), PATHS), ensure_ascii=False).encode()


def post(client: httpx.Client, path: str = "/v1/messages", **fields: Any) -> httpx.Response:
    return client.post(path, json={"model": "fake-llm", "max_tokens": 8, "messages": SAID, **fields})


def test_an_error_carries_the_id_of_its_request(client: httpx.Client) -> None:
    answer = post(client, max_tokens=None)
    assert answer.status_code == 400
    body = answer.json()
    assert body["error"] == {
        "type": "invalid_request_error",
        "message": "max_tokens is required",
        "code": "invalid_request",
        "param": "max_tokens",
    }
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/v1/messages", "/messages", "/v1/messages/", "/v1/messages?beta=true"]
)
def test_paths_of_clients(client: httpx.Client, path: str) -> None:
    assert post(client, path).json()["content"] == [{"type": "text", "text": "one two"}]
    assert post(client, path, messages=5).json()["error"]["type"] == "invalid_request_error"


def test_routes_that_are_not_here(client: httpx.Client) -> None:
    answer = client.post("/v1/messages/batches", json={})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
    assert client.get("/v1/messages").json()["type"] == "error"


def test_keys_of_both_kinds() -> None:
    with serving(fake_pool(("llm",)), api_key="secret") as running:
        answer = post(running.client)
        assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")
        for header in ({"x-api-key": "secret"}, {"Authorization": "Bearer secret"}):
            answer = running.client.get("/v1/models", headers=header)
            assert answer.status_code == 200


def test_a_prompt_too_long() -> None:
    with serving(fake_pool(("llm",), context=3)) as running:
        answer = post(running.client, messages=[{"role": "user", "content": "one two three four"}], stream=True)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith("prompt is too long: 4 tokens > 3 maximum")
        assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_the_shape_is_documented(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    responses = document["paths"]["/v1/messages"]["post"]["responses"]
    assert responses["default"] == {"$ref": "#/components/responses/AnthropicFailure"}
    assert document["components"]["schemas"]["AnthropicError"]["required"] == ["type", "error", "request_id"]
