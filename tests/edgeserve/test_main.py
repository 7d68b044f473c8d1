"""The process that serves chooses its allocator once, and only where that helps."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import pytest

from edgeserve import __main__ as command

glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot trim its heap")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(command, "main", lambda: 0)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "edgeserve", "serve", "--port", "0"])
    return calls


@glibc
def test_serve_starts_again_with_the_same_words(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONMALLOC", raising=False)
    monkeypatch.setattr(sys, "argv", ["edgeserve", "serve"])
    assert command.run() == 0
    ((program, words, environ),) = started
    assert program == sys.executable
    assert words == [sys.executable, "-m", "edgeserve", "serve", "--port", "0"]
    assert environ["PYTHONMALLOC"] == "malloc"


def test_a_choice_that_was_made_is_kept(started: list[Any]) -> None:
    command.use_system_allocator({"PYTHONMALLOC": "pymalloc"})
    assert started == []


def test_other_commands_do_not(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["edgeserve", "list"])
    assert command.run() == 0
    assert started == []
