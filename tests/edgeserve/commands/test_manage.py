"""``ps``, ``load``, ``unload``, ``rm`` and ``reload`` against a running server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import run, told
from support.managed import World, managed, model
from support.server import Running

from edgeserve.commands.manage import models_table
from edgeserve.config import ServerSettings
from edgeserve.models.store import Store

Served = tuple[Running, World]


@pytest.fixture
def served(settings: Path) -> Iterator[Served]:
    with managed({"llm": model(), "mine": model("asr", pinned=True)}, Store(settings / "models")) as served:
        yield served


def at(served: Served) -> dict[str, str]:
    return {"EDGESERVE_URL": served[0].url.rstrip("/")}


def rows(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_ps_lists_the_models(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("load", "mine", environ=at(served)) == 0
    assert capsys.readouterr().out == "mine: hot\n"
    assert run("ps", environ=at(served)) == 0
    heads, llm, mine = rows(capsys)
    assert heads == ["NAME", "JOB", "RUNG", "MEMORY", "REQUESTS", "IDLE", "DEFAULT", "PINNED"]
    assert llm == ["fake-llm", "llm", "warm", "-", "-", "-", "yes", "-"]
    assert mine[:5] == ["mine", "asr", "hot", "120", "MB"]
    assert mine[-2:] == ["yes", "yes"]


def test_ps_lists_the_parts_on_other_machines_below() -> None:
    part = {"node": "box2:50052", "model_name": "large", "layers": 12, "memory_mb": 700}
    row = {"model_name": "large", "model_type": "llm", "rung": "hot", "memory_mb": 300, "leases": 0, "use_count": 0}
    table = models_table([row | {"idle_seconds": 0, "default": True, "pinned": False, "nodes": [part]}])
    assert table.splitlines()[-1] == "large: 12 layers on box2:50052, 700 MB"
    table = models_table([row | {"idle_seconds": 0, "default": True, "pinned": False, "nodes": [part | {"layers": 1}]}])
    assert table.splitlines()[-1] == "large: 1 layer on box2:50052, 700 MB"


def test_ps_shows_the_default_of_each_job(capsys: pytest.CaptureFixture[str]) -> None:
    with managed({"mine": model("asr"), "ears": model("asr", default=True)}) as served:
        assert run("ps", environ=at(served)) == 0
    _, mine, ears = rows(capsys)
    assert [mine[-2:], ears[-2:]] == [["-", "-"], ["yes", "-"]]


def test_ps_without_models(capsys: pytest.CaptureFixture[str]) -> None:
    with managed({}) as served:
        assert run("ps", environ=at(served)) == 0
    assert capsys.readouterr().out == "The server serves no model.\n"


def test_a_model_is_loaded_and_unloaded(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    for argv, said in [
        (["load", "fake-llm"], "fake-llm: hot"),
        (["unload", "fake-llm", "--to", "warm"], "fake-llm: warm"),
        (["unload", "fake-llm"], "fake-llm: cold"),
        (["load", "fake-llm", "--to", "warm"], "fake-llm: warm"),
    ]:
        assert run(*argv, environ=at(served)) == 0
        assert capsys.readouterr().out.strip() == said
    assert run("load", "none", environ=at(served)) == 1
    assert "there is no model or engine 'none'" in told(capsys)[0]


def test_rm_refuses_what_is_served_and_says_so(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("rm", "hibari", environ=at(served)) == 1
    assert "no model 'hibari' is on this device" in told(capsys)[0]


def test_reload_prints_the_changes(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    _, world = served
    assert run("reload", environ=at(served)) == 0
    assert capsys.readouterr().out == "defaults: nothing to change\n"
    world.rewrite({"llm": model(threads=2), "new": model("tts")})
    assert run("reload", environ=at(served)) == 0
    assert capsys.readouterr().out.splitlines() == ["added: new", "removed: mine", "replaced: llm"]
    world.rewrite(server=ServerSettings(isolation="thread", drain_seconds=5.0, port=1))
    assert run("reload", environ=at(served)) == 1
    assert capsys.readouterr().out.splitlines() == [
        "defaults: nothing to change",
        "only a restart of the server changes: [server] port",
    ]
