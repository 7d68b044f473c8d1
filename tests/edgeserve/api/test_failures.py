"""What the official client raises for each of our errors, and what it tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from support.server import Running, fake_pool, serving

from edgeserve import errors
from edgeserve.api.failures import STATUS

CLASSES = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    408: openai.APIStatusError,
    413: openai.APIStatusError,
    415: openai.APIStatusError,
}
"""All others of 500 and above: InternalServerError."""
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
    engine: Any = running.pool.gates["llm"].engine

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
    expected = "authentication_error" if status == 401 else "server_error"
    assert error.type == ("invalid_request_error" if status in (400, 403, 404, 408, 413, 415, 501) else expected)
    assert error.response.headers["retry-after"] == "3"
    assert error.request_id


def test_every_error_has_a_status() -> None:
    assert {kind.code for kind in KINDS} | {errors.Cancelled.code} == set(STATUS)
