"""The command line: arguments, messages and exit codes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import fake_cli
from support.commands import read_until, run, start, told
from support.gates import CountingGovernor

import edgeserve
from edgeserve import cli
from edgeserve.errors import DoesNotFit


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys, contextlib\nfrom edgeserve import cli\n"
        "with contextlib.suppress(SystemExit): cli.main(['--help'])\n"
        "heavy = {'asyncio', 'starlette', 'numpy', 'edgeserve.residency.pool', 'edgeserve.models.store'}\n"
        "print(heavy & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=fake_cli.ROOT)
    assert "transcribe" in ended.stdout
    assert ended.stdout.endswith("set()\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("--version")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"edgeserve {edgeserve.__version__}\n"


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["sing"],
        ["chat", "--max-tokens", "0", "x"],
        ["chat", "--max-tokens", "many", "x"],
        ["chat", "--device", "tpu", "x"],
        ["serve", "--port", "http"],
        ["speak"],
        ["top", "--interval", "soon"],
        ["top", "--interval", "0"],
        ["transcribe", "a.wav", "--format", "doc"],
    ],
)
def test_wrong_usage_is_one_line_and_ends_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*argv)
    assert ended.value.code == 2
    (line,) = told(capsys)
    assert line.startswith("[ERROR] ")
    assert "--help" in line
    assert "invalid _" not in line  # argparse's words for a checker that says nothing itself


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[llm\n", "not valid TOML"),
        ("[llm]\nmodel = 3\n", "expected a text in quotes"),
        ("[lmm]\nmodel = 'x'\n", "did you mean [llm]?"),
    ],
)
def test_a_mistake_in_the_settings_ends_with_2(
    settings: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (settings / "models.toml").write_text(text)
    assert run("chat", "hello") == 2
    (line,) = told(capsys)
    assert line.startswith("[ERROR] models.toml")
    assert words in line


def test_another_settings_file(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "hello", "--config", "none.toml") == 2
    assert told(capsys) == ["[ERROR] none.toml: no such file; expected the server's models.toml"]


def test_an_engine_that_is_not_configured(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "models.toml").write_text("")
    assert run("chat", "hello") == 2
    (line,) = told(capsys)
    assert "no llm model is configured" in line
    assert "--model" in line


def test_a_model_named_on_the_command_line_needs_no_settings(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (settings / "models.toml").write_text("")
    assert run("chat", "hello", "--model", "small") == 0
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.parametrize("step", ["open", "heat", "run"])
def test_a_failing_engine_ends_with_1(settings: Path, step: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "hello", environ={"FAKE_FAIL_ON": step}) == 1
    assert told(capsys) == [f"[ERROR] fake-llm failed on {step}, as configured"]
    assert run("chat", "hello", "--log-level", "debug", environ={"FAKE_FAIL_ON": step}) == 1
    assert any("Traceback" in line for line in told(capsys))


def test_a_model_that_does_not_fit_ends_with_1(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refusing = CountingGovernor(refuse=DoesNotFit("needs 6.0 GB,\nthere are 4.0 GB"))
    assert run("chat", "hello", governor=refusing) == 1
    assert told(capsys) == ["[ERROR] needs 6.0 GB, there are 4.0 GB"]


@pytest.mark.unforeseen
def test_an_unforeseen_error_is_one_line_and_with_debug_a_traceback(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(config: object) -> None:
        raise ZeroDivisionError("a bug")

    assert cli.main(["chat", "x"], environ={}, build_pool=broken) == 1  # type: ignore[arg-type]
    assert told(capsys) == ["[ERROR] unforeseen ZeroDivisionError: a bug; --log-level debug shows where"]
    assert cli.main(["chat", "x", "--log-level", "debug"], environ={}, build_pool=broken) == 1  # type: ignore[arg-type]
    assert told(capsys)[0].startswith("Traceback")


@pytest.mark.slow
def test_ctrl_c_ends_an_answer_with_130() -> None:
    with start("chat", "one two three four five", FAKE_DELAY="0.2") as process:
        read_until(process, "one")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "five" not in out
    assert error == ""


@pytest.mark.slow
def test_nobody_reads_the_answer() -> None:
    with start("chat", " ".join(["word"] * 50), FAKE_DELAY="0.02") as process:
        read_until(process, "word")
        assert process.stdout
        process.stdout.close()
        assert process.wait(timeout=20) == 141
        assert process.stderr
        assert process.stderr.read() == ""
