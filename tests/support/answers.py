"""Answers of the server, taken apart."""

from __future__ import annotations

import json
from typing import Any

import httpx


def events(answer: httpx.Response) -> list[Any]:
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


def error(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body = answer.json()["error"]
    assert set(body) == {"message", "type", "code", "param"}
    assert answer.headers["x-request-id"]
    return dict(body)
