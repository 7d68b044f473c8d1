"""Programs that cannot be installed here: their requests, as their sources send them, on a real model."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "edgeserve" / "api" / "ollama" / "replays"
PROGRAMS = {
    "home_assistant": ("Home Assistant", "requests of its core"),
    "open_webui": ("Open WebUI", "requests of 0.12.4"),
}
MODEL = "smollm2-135m-instruct"
FEATURES = {
    "/api/embed": "embeddings",
    "/api/pull": "pulls",
    "/api/copy": "errors",
    "/api/generate": "loading and unloading",
}
SECONDS = 120
MOST_TOKENS = 48
"""The programs set no limit, and a small model may not end."""


def feature(step: dict[str, Any]) -> str:
    if step["path"] != "/api/chat":
        return FEATURES.get(step["path"], "models")
    body = step["body"]
    return "tools" if body.get("tools") else "structured output" if "format" in body else "chat"


def steps() -> list[Any]:
    found = []
    for name, (program, version) in PROGRAMS.items():
        for step in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")):
            mark = pytest.mark.client(program, feature(step), version=version)
            found.append(pytest.param(step, marks=mark, id=f"{name}: {step['about']}"))
    return found


@pytest.mark.parametrize("step", steps())
def test_a_request_has_the_answer_that_its_program_reads(address: str, step: dict[str, Any]) -> None:
    body = step.get("body")
    if step["path"] == "/api/chat":
        body = body | {"options": {"num_predict": MOST_TOKENS, **body.get("options", {})}}
    data = json.dumps(body).replace("fake-llm", MODEL).encode() if body else None
    request = urllib.request.Request(address + step["path"], data, method=step["method"])
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read()
    assert status == step.get("status", 200), text
    lines = [json.loads(line) for line in text.splitlines()]
    assert set(step.get("keys", ())) <= set(lines[0])
    if "done" in step.get("last", {}):
        assert [one["done"] for one in lines] == [False] * (len(lines) - 1) + [True]
        assert all(one["message"]["role"] == "assistant" for one in lines)
