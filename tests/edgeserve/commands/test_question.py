"""Questions are asked at a terminal only, and only a yes is a yes."""

from __future__ import annotations

import io

import pytest

from edgeserve.commands import question


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "yes"), [("y\n", True), ("Yes\n", True), ("\n", False), ("n\n", False), ("", False)])
def test_only_a_yes_is_a_yes(typed: str, yes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", shown)
    assert question.ask("Sure?") is yes
    assert shown.getvalue() == "Sure? [y/N] "


def test_without_a_terminal_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    monkeypatch.setattr("sys.stderr", shown)
    assert question.ask("Sure?") is False
    assert shown.getvalue() == ""
