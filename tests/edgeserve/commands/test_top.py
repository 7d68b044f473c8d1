"""``edgeserve top``: the picture, once without a terminal, live in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.commands import run, typist
from support.managed import managed, model
from support.server import Running

from edgeserve.commands.feed import Shown
from edgeserve.commands.top import picture

SAMPLE: dict[str, Any] = {
    "available_mb": 3072,
    "total_mb": 4096,
    "budget_mb": 3072,
    "pressure": "LOW",
    "percent": 12,
}


def pull(**more: Any) -> dict[str, Any]:
    return {"model": "m", "part": "m", "status": "download", "done": 0, "total": 0, **more}


def test_the_picture_has_memory_models_and_pulls_under_way() -> None:
    pulls = [pull(done=1, total=4), pull(part="vad"), pull(status="success"), pull(status="failed")]
    assert list(picture(Shown(SAMPLE, [], 0.0, pulls), "http://box")) == [
        "http://box  memory 1.0 GB of 4.0 GB, budget 3.0 GB",
        "pressure LOW (12% of the budget)",
        "",
        "no model is served",
        "",
        "pull m: download 25%",
        "pull m (vad): download",
    ]


def test_without_a_terminal_it_is_printed_once(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with managed({"llm": model()}) as (running, _):
        assert run("top", environ={"EDGESERVE_URL": running.url}) == 0
    out = capsys.readouterr().out
    assert "fake-llm" in out
    assert "\x1b" not in out


@pytest.fixture
def environ(settings: Path) -> Any:
    with managed({"llm": model()}) as (running, _):
        yield running, {"EDGESERVE_URL": running.url, "EDGESERVE_MODELS_DIR": str(settings)}


@pytest.mark.slow
@pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", 130)])
def test_in_a_terminal_it_is_live_until_a_key(environ: tuple[Running, dict[str, str]], key: str, code: int) -> None:
    running, given = environ
    with typist("top", "--interval", "0.1", **given) as one:
        one.sees("\x1b[?1049h")
        one.sees("warm")
        running.client.post("/admin/load", json={"model": "llm"}).raise_for_status()
        one.sees("hot")
        one.sees("q ends")
        one.type(key)
        one.sees("\x1b[?1049l")
        assert one.process.wait(10) == code


@pytest.mark.slow
def test_a_server_that_ends_leaves_its_words_on_the_screen(settings: Path) -> None:
    with managed({"llm": model()}) as (running, _):
        one = typist("top", "--interval", "0.1", EDGESERVE_URL=running.url)
        terminal = one.__enter__()
        terminal.sees("q ends")
    try:
        terminal.sees("no edgeserve answers")
        terminal.type("q")
        terminal.sees("\x1b[?1049l")
        assert terminal.process.wait(10) == 0
    finally:
        one.__exit__(None, None, None)
