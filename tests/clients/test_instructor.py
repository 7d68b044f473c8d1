"""Instructor on OpenAI's client."""

from __future__ import annotations

from typing import Any

import pytest

instructor = pytest.importorskip("instructor", reason="make clients installs instructor")
openai = pytest.importorskip("openai", reason="make clients installs openai")
pydantic = pytest.importorskip("pydantic", reason="make clients installs instructor, which needs pydantic")


@pytest.mark.client("instructor", "structured output")
@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA"])
def test_a_model_is_filled(base_url: str, mode: str) -> None:
    class Bird(pydantic.BaseModel):
        name: str
        legs: int

    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as ai:
        asking: Any = instructor.from_openai(ai, mode=instructor.Mode[mode])
        found = asking.chat.completions.create(
            model="gpt-4o",
            response_model=Bird,
            max_retries=0,
            max_tokens=128,
            messages=[{"role": "user", "content": "A heron has two legs."}],
        )
    assert isinstance(found, Bird)
