"""The official client's exception for each error of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from support.gates import engine_of
from support.server import Running, fake_pool, serving

from edgeserve import errors
from edgeserve.api import failures
from edgeserve.api.failures import STATUS

CLASSES = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    408: openai.APIStatusError,
    409: openai.ConflictError,
    413: openai.APIStatusError,
    415: openai.APIStatusError,
    429: openai.RateLimitError,
}
"""Every other status from 500 on becomes InternalServerError."""
KINDS = [
    one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, errors.EdgeserveError) and one is not errors.Cancelled
]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Running, OpenAI]]:
    with (
        serving(fake_pool(["llm"])) as running,
        OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield running, client


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_error_has_its_class(served: tuple[Running, OpenAI], kind: type[errors.EdgeserveError]) -> None:
    running, client = served
    engine: Any = engine_of(running.pool.gates["llm"])

    def fail(request: Any, cancel: Any) -> Iterator[Any]:
        raise kind("as arranged", param="messages", retry_after=3)
        yield

    engine.chat = fail
    with pytest.raises(openai.APIStatusError, match="as arranged") as caught:
        client.chat.completions.create(model="llm", messages=[{"role": "user", "content": "hello"}])
    del engine.chat
    error, status = caught.value, STATUS[kind.code]
    assert error.status_code == status
    assert type(error) is (openai.InternalServerError if status >= 500 else CLASSES[status])
    assert (error.code, error.param) == (kind.code, "messages")
    expected = {401: "authentication_error", 429: "rate_limit_error"}.get(status, "server_error")
    assert error.type == ("invalid_request_error" if status in (400, 403, 404, 408, 409, 413, 415) else expected)
    assert error.response.headers["retry-after"] == "3"
    assert error.request_id


def test_every_error_has_a_status() -> None:
    assert {kind.code for kind in KINDS} | {errors.Cancelled.code} == set(STATUS)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "web_search"}]},
            "tools[0].type",
        ),
        ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
    ],
)
def test_an_unavailable_feature_is_the_clients_mistake_and_not_tried_again(
    served: tuple[Running, OpenAI], path: str, body: dict[str, Any], param: str
) -> None:
    answer = served[0].client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert 501 not in STATUS.values()


def test_an_error_has_the_shape_of_its_paths_dialect() -> None:
    error = errors.Busy("full", retry_after=3)
    assert failures.body(error, "/api/chat") == {"error": "full"}
    assert failures.body(error, "/v1/chat") == failures.body(error) != failures.body(error, "/api/chat")
    assert failures.respond(error, "/api/chat").headers["retry-after"] == "3"
    assert len(failures.respond(errors.InvalidRequest("x" * 10**6), "/api/chat").body) < 50_000


@pytest.mark.parametrize("text", ["x" * 10**6, "\ud800", "a\udfff" * 9999, "\x00\x1b"])
def test_an_error_of_any_text_can_be_written(text: str) -> None:
    answer = failures.respond(errors.InvalidRequest(text, param=text))
    assert len(answer.body) < 50_000
    told = json.loads(bytes(answer.body))["error"]
    assert told["message"][:1] in (text[:1], "\\")
    assert len(told["param"]) <= len(told["message"])
