"""docs/clients.md, made of outcomes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

TOOL = Path(__file__).parents[2] / "tools" / "clients_page.py"
FOUND = {
    "zeta": {"version": "1.2", "features": {"chat": "passed", "tools": "failed", "async": "passed"}},
    "Beta": {"version": "2", "features": {"chat": "passed"}},
    "gamma": {"version": "3", "features": {"chat": "passed"}},
    "npm:alpha": {"version": "", "features": {"streams": "skipped", "chat": "skipped"}},
}


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("clients_page", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_client_has_a_row_and_each_feature_of_several_a_column(tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text(json.dumps(FOUND), encoding="utf-8")
    tool().main(str(tmp_path / "found.json"), str(tmp_path / "clients.md"))
    lines = [line for line in (tmp_path / "clients.md").read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    assert lines == [
        "| client | version | chat | also |",
        "| --- | --- | --- | --- |",
        "| alpha (npm) | not installed | not run | streams (not run) |",
        "| Beta | 2 | yes |  |",
        "| gamma | 3 | yes |  |",
        "| zeta | 1.2 | yes | tools (**no**), async |",
    ]


def test_the_order_of_the_runs_makes_no_difference() -> None:
    names = ("a", "b", "c", "d")
    runs = [
        {name: {"version": "1", "features": dict.fromkeys(order, "passed")} for name in names} for order in ("xy", "yx")
    ]
    first, second = (tool().page(found) for found in runs)
    assert first == second


def test_the_page_that_is_there_is_a_page_of_the_tool() -> None:
    written = (TOOL.parents[1] / "docs" / "clients.md").read_text(encoding="utf-8")
    assert written.startswith(tool().HEAD)
    assert written.endswith(tool().FOOT)
    assert "**no**" not in written
    assert written.count("| client | version |") == 1
