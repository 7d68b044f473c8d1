"""One answer, a picture, a conversation at a terminal, and Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.mmproj import picture
from support import fake_cli
from support.commands import run, told, typist
from support.gates import PATIENCE_SECONDS, CountingGovernor

from edgeserve.commands.chat import Conversation, converse
from edgeserve.errors import DoesNotFit


def test_chat_prints_the_answer(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "one two three") == 0
    assert capsys.readouterr() == ("one two three\n", "")


def test_chat_says_when_the_answer_was_cut(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "one two three", "--max-tokens", "2") == 0
    assert capsys.readouterr() == ("one two\n", "(cut after 2 tokens)\n")


@pytest.mark.slow
def test_chat_reads_piped_input() -> None:
    piped = [sys.executable, fake_cli.__file__, "chat"]
    ended = subprocess.run(piped, input="from a pipe\n", capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "from a pipe\n", "")


def test_an_empty_prompt_is_refused(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "  ") == 1
    assert told(capsys) == ["[ERROR] the prompt is empty"]


def test_vision_answers_about_the_picture(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = picture("red", 8)
    (settings / "a.png").write_bytes(data)
    assert run("vision", "a.png", "what is this") == 0
    assert capsys.readouterr().out == f"1 images of {len(data)} bytes: what is this\n"


def test_vision_that_does_not_fit_ends_with_1(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "a.png").write_bytes(picture("red", 8))
    refusing = CountingGovernor(refuse=DoesNotFit("71% of the memory; at most 70%"))
    assert run("vision", "a.png", governor=refusing) == 1
    assert capsys.readouterr() == ("", "[ERROR] 71% of the memory; at most 70%\n")


@pytest.mark.slow
def test_a_conversation() -> None:
    with typist("chat") as me:
        me.sees("/exit")
        me.sees("> ")
        me.type("good morning\n")
        me.sees("good morning\r\n")  # the echo
        me.sees("good morning\r\n")  # the answer
        me.sees("> ")
        me.type("/what\n")
        me.sees("Ctrl-D leaves")
        me.sees("> ")
        me.type("\x04")
        assert me.process.wait(timeout=PATIENCE_SECONDS) == 0


@pytest.mark.slow
def test_exit_leaves() -> None:
    with typist("chat") as me:
        me.sees("> ")
        me.type("/exit\n")
        assert me.process.wait(timeout=PATIENCE_SECONDS) == 0


@pytest.mark.slow
def test_ctrl_c_stops_the_answer_and_the_conversation_goes_on() -> None:
    with typist("chat", FAKE_DELAY="0.1") as me:
        me.sees("> ")
        me.type("a b c d e f g h i j k l m n o p q r s t u v w x y z\n")
        me.sees("z\r\n")
        me.sees("a b")
        me.type("\x03")
        assert "z" not in me.sees("(stopped)")
        me.sees("> ")
        me.type("again\n")
        me.sees("again\r\n")
        me.sees("again\r\n")
        me.sees("> ")
        me.type("/exit\n")
        assert me.process.wait(timeout=PATIENCE_SECONDS) == 0


def test_ctrl_c_at_the_prompt_only_clears_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Not through a terminal: readline takes a signal only once it waits, which nobody outside can see.
    typed: Iterator[str | type[BaseException]] = iter([KeyboardInterrupt, "again", EOFError])

    def read(prompt: str) -> str:
        line = next(typed)
        if isinstance(line, str):
            return line
        raise line

    class Echo(Conversation):
        def say(self, text: str) -> None:
            print(f"said {text}")

    monkeypatch.setattr("builtins.input", read)
    converse(Echo(None, None, None))  # type: ignore[arg-type]
    assert capsys.readouterr().out.splitlines()[1:] == ["", "said again", ""]


@pytest.mark.slow
def test_an_error_does_not_end_the_conversation() -> None:
    with typist("chat", FAKE_FAIL_ON="run") as me:
        for _ in range(2):
            me.sees("> ")
            me.type("hello\n")
            me.sees("[ERROR] fake-llm failed on run")
        me.sees("> ")
        me.type("/exit\n")
        assert me.process.wait(timeout=PATIENCE_SECONDS) == 0
