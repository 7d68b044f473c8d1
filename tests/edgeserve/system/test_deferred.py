"""Deferred modules: importable at once, run at their first use."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeserve.system.deferred import defer

CODE = {
    "__init__.py": "import builtins\nbuiltins.runs.append('package')\nfrom rarely.part import VALUE\n",
    "part.py": "VALUE = 3\n",
    "costly.py": "import builtins\nbuiltins.runs.append('costly')\nVALUE = 4\n",
    "slow.py": "import builtins\nbuiltins.meanwhile()\nVALUE = 5\n",
    "broken.py": "VALUE = 1 / 0\n",
}


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A package whose code notes that it ran."""
    noted: list[str] = []
    folder = tmp_path / "rarely"
    folder.mkdir()
    for name, code in CODE.items():
        (folder / name).write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("builtins.runs", noted, raising=False)
    yield noted
    for name in [one for one in sys.modules if one.partition(".")[0] == "rarely"]:
        del sys.modules[name]


def test_a_module_of_a_deferred_package_is_imported_without_the_package(runs: list[str]) -> None:
    defer("rarely")
    part = importlib.import_module("rarely.part")
    assert (part.VALUE, runs) == (3, [])


def test_the_first_use_runs_the_code_once(runs: list[str]) -> None:
    defer("rarely")
    rarely = importlib.import_module("rarely")
    assert (rarely.VALUE, rarely.VALUE, runs) == (3, 3, ["package"])
    with pytest.raises(AttributeError, match="nothing"):
        _ = rarely.nothing
    assert runs == ["package"]


def test_a_deferred_module_is_an_attribute_of_its_package(runs: list[str]) -> None:
    rarely = importlib.import_module("rarely")
    defer("rarely.costly")
    assert runs == ["package"]
    assert (rarely.costly.VALUE, runs) == (4, ["package", "costly"])


def test_an_imported_module_stays(runs: list[str]) -> None:
    before = importlib.import_module("rarely.costly")
    defer("rarely.costly")
    assert sys.modules["rarely.costly"] is before


def test_threads_wait_for_the_code(runs: list[str]) -> None:
    importlib.import_module("rarely")
    defer("rarely.costly")
    costly, seen = sys.modules["rarely.costly"], list[int]()
    threads = [threading.Thread(target=lambda: seen.append(costly.VALUE)) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (seen, runs) == ([4] * 8, ["package", "costly"])


def test_a_thread_that_asks_while_the_code_runs_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("rarely")
    defer("rarely.slow")
    slow, seen, asking = sys.modules["rarely.slow"], list[int](), threading.Event()
    second = threading.Thread(target=lambda: (asking.set(), seen.append(slow.VALUE)))

    def meanwhile() -> None:
        second.start()
        assert asking.wait(10)
        with pytest.raises(AttributeError, match="no attribute 'VALUE'"):
            _ = slow.VALUE  # which is not set yet

    monkeypatch.setattr("builtins.meanwhile", meanwhile, raising=False)
    assert slow.VALUE == 5
    second.join()
    assert seen == [5]


def test_errors_reach_who_asks() -> None:
    importlib.import_module("rarely")
    with pytest.raises(ModuleNotFoundError, match="absent"):
        defer("rarely.absent")
    defer("rarely.broken")
    with pytest.raises(ZeroDivisionError):
        _ = sys.modules["rarely.broken"].VALUE
