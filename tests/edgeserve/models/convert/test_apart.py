"""Conversions in children: what they tell, their errors, and their end."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support import tiny_whisper
from support.cases import each
from support.measured import told_by

from edgeserve.errors import DiskFull, StoreError
from edgeserve.models.convert import apart, whisper


def written(*lines: object, then: str = "") -> list[str]:
    """The command of a child that prints these lines."""
    text = "".join(f"print({json.dumps(one)!r}, flush=True)\n" for one in lines)
    return [sys.executable, "-c", text + then]


def converted(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> tuple[Mapping[str, Path], list[tuple[str, float]]]:
    """The files and the progress that the server takes from a child. The command gets three more arguments."""
    told = list[tuple[str, float]]()
    monkeypatch.setattr(apart, "module_command", lambda module: command)
    return apart.convert("whisper", Path("a"), Path("b"), lambda *one: told.append(one)), told


def test_files_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    command = written({"stage": "encoder", "share": 0.5}, {"files": {"model": "/x/y"}})
    assert converted(monkeypatch, command) == ({"model": Path("/x/y")}, [("encoder", 0.5)])


@each("fault", [TypeError("x"), KeyError("d"), IndexError(), ZeroDivisionError("0"), RuntimeError()])
def test_any_fault_of_a_checkpoint_is_an_error(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whisper, "convert", _raising(fault))
    last = apart.run("whisper", Path("somewhere"), Path("b"), print)
    with pytest.raises(StoreError, match=f"somewhere cannot be converted .{type(fault).__name__}: .*; is it complete"):
        converted(monkeypatch, written(last))


@each("error", [StoreError("no vocabulary"), DiskFull("no room")])
def test_our_own_errors_keep_their_kind(error: StoreError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whisper, "convert", _raising(error))
    with pytest.raises(type(error), match=error.message):
        converted(monkeypatch, written(apart.run("whisper", Path("a"), Path("b"), print)))


@each("error", [OSError(28, "No space left on device", "/a/b"), OSError(5, "Input/output error"), OSError("odd")])
def test_errors_of_the_system_keep_their_number(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whisper, "convert", _raising(error))
    with pytest.raises(OSError, match=error.strerror or "odd") as raised:
        converted(monkeypatch, written(apart.run("whisper", Path("a"), Path("b"), print)))
    assert (raised.value.errno, raised.value.filename) == (error.errno, error.filename)


@each(
    ("end", "how"),
    [
        (f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})", "memory ran out"),
        ("raise SystemExit(3)", "exit code 3"),
        ("", "exit code 0"),
    ],
)
def test_a_child_that_ends_early(end: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=how):
        converted(monkeypatch, written({"stage": "encoder", "share": 0.1}, then=end))


def test_a_cancelled_conversion_ends_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, children = apart._started, list[Any]()
    monkeypatch.setattr(apart, "_started", lambda command: children.append(begin(command)) or children[-1])
    command = written({"stage": "encoder", "share": 0.1}, then="import time; time.sleep(300)")
    monkeypatch.setattr(apart, "module_command", lambda module: command)
    with pytest.raises(KeyboardInterrupt):
        apart.convert("whisper", Path("a"), Path("b"), _raising(KeyboardInterrupt()))
    assert [one.returncode for one in children] == [-signal.SIGKILL]


def test_what_a_library_prints_is_no_news(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    program = """
import os, sys
from edgeserve.models.convert import apart, whisper
def noisy(*ignored):
    print("deprecated", flush=True)
    os.write(1, b"deprecated\\n")
    return {}
whisper.convert = noisy
apart.main("whisper", "a", "b")
"""
    assert converted(monkeypatch, [sys.executable, "-c", program]) == ({}, [])
    assert capfd.readouterr().err.count("deprecated") == 2


PROGRAM = """
import json, sys
from pathlib import Path
from edgeserve.models.convert import apart
told = []
files = apart.convert("whisper", Path(sys.argv[1]), Path(sys.argv[2]), lambda *one: told.append(one[0]))
sizes = [path.stat().st_size for path in files.values()]
print(json.dumps([told, sizes, sorted({"numpy", "onnx", "edgeserve.models.convert.whisper"} & set(sys.modules))]))
"""


@pytest.mark.slow
def test_a_conversion_leaves_nothing_in_its_caller(tmp_path: Path) -> None:
    told, sizes, imported = told_by(PROGRAM, str(tiny_whisper.build(tmp_path / "tiny")), str(tmp_path / "out"))
    assert told
    assert min(sizes) > 0
    assert imported == []


def _raising(error: BaseException) -> Any:
    def fails(*ignored: object) -> None:
        raise error

    return fails
