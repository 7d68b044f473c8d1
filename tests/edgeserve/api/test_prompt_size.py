"""The renderer of routes that answer with the size of a prompt."""

from __future__ import annotations

import json

import pytest

from edgeserve.api.prompt_size import PromptSize
from edgeserve.errors import EngineFailure
from edgeserve.messages import PromptEvent


@pytest.mark.parametrize("head", [{}, {"object": "response.input_tokens"}])
def test_the_size_stands_behind_the_fields_of_the_dialect(head: dict[str, str]) -> None:
    answer = PromptSize(head)
    assert answer.feed(0, PromptEvent(12, 3)) == b""
    assert json.loads(answer.end()) == {**head, "input_tokens": 12}
    assert answer.fail(EngineFailure("it broke")) is None, "a whole answer has no place for an error"
