"""The command line on fake engines: what it prints, how it ends, and what Ctrl-C does."""

from __future__ import annotations

import array
import contextlib
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import time
import wave
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support import fake_cli
from support.gates import CountingGovernor
from support.machines import BOX

import edgeserve
from edgeserve import catalog, cli, machine
from edgeserve.api.audio import wav
from edgeserve.commands.chat import Conversation, converse
from edgeserve.commands.models import wanted
from edgeserve.commands.serve import greeting
from edgeserve.config import load
from edgeserve.errors import DoesNotFit
from edgeserve.store import Progress, Store, StoredModel

SETTINGS = """
[llm]
model = "small"
[vision]
model = "seeing"
[asr]
model = "hearing"
[tts]
model = "speaking"
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a models.toml, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.toml").write_text(SETTINGS)
    return tmp_path


def run(*argv: str, environ: Mapping[str, str] | None = None, governor: CountingGovernor | None = None) -> int:
    return fake_cli.main(list(argv), environ or {}, governor)


def start(*argv: str, **environ: str) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, fake_cli.__file__, *argv],
        env={"PATH": os.environ["PATH"], **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The error lines; each starts with [ERROR]."""
    return capsys.readouterr().err.splitlines()


# Usage


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys, contextlib\nfrom edgeserve import cli\n"
        "with contextlib.suppress(SystemExit): cli.main(['--help'])\n"
        "print({'asyncio', 'starlette', 'numpy', 'edgeserve.pool', 'edgeserve.store'} & set(sys.modules))"
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
        ["speak", "hello"],
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[llm\n", "not valid TOML"),
        ("[llm]\nmodel = 3\n", "expected a text in quotes"),
        ("[lmm]\nmodel = 'x'\n", "did you mean llm?"),
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


# One answer


def test_chat_prints_the_answer(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "one two three") == 0
    assert capsys.readouterr() == ("one two three\n", "")


def test_chat_says_when_the_answer_was_cut(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "one two three", "--max-tokens", "2") == 0
    assert capsys.readouterr() == ("one two\n", "(cut after 2 tokens)\n")


def test_chat_reads_piped_input() -> None:
    piped = [sys.executable, fake_cli.__file__, "chat"]
    ended = subprocess.run(piped, input="from a pipe\n", capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "from a pipe\n", "")


def test_an_empty_prompt_is_refused(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "  ") == 1
    assert told(capsys) == ["[ERROR] the prompt is empty"]


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


def test_an_unforeseen_error_is_one_line_and_with_debug_a_traceback(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(config: object) -> None:
        raise ZeroDivisionError("a bug")

    assert cli.main(["chat", "x"], environ={}, build_pool=broken) == 1  # type: ignore[arg-type]
    assert told(capsys) == ["[ERROR] unforeseen ZeroDivisionError: a bug; --log-level debug shows where"]
    assert cli.main(["chat", "x", "--log-level", "debug"], environ={}, build_pool=broken) == 1  # type: ignore[arg-type]
    assert told(capsys)[0].startswith("Traceback")


# Speech


def test_speak_writes_a_wav_file(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("speak", "one two three. four", "-o", "a.wav") == 0
    assert capsys.readouterr() == ("", "")
    with wave.open("a.wav") as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.getnframes() == 0.4 * 24_000


def test_speak_from_stdin_to_stdout() -> None:
    command = [sys.executable, fake_cli.__file__, "speak", "-", "-o", "-"]
    ended = subprocess.run(command, input=b"one two", capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
    with wave.open(io.BytesIO(ended.stdout)) as file:
        assert file.getnframes() == 0.2 * 24_000


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((" ", "-o", "a.wav"), "the text is empty"),
        (("hello", "-o", "a.wav", "--speed", "9"), "--speed 9: expected 0.25 to 4.0"),
        (("hello", "-o", "nowhere/a.wav"), "-o nowhere/a.wav: there is no such directory"),
        (("hello", "-o", "a.wav", "--voice", "bass"), "unknown voice 'bass'; voices: tone, hum"),
    ],
)
def test_speak_refuses(settings: Path, argv: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("speak", *argv) == 1
    assert told(capsys) == [f"[ERROR] {words}"]
    assert not list(settings.glob("**/*.wav"))


def spoken(folder: Path) -> str:
    """A WAV file of three seconds; the second is silent."""
    path = folder / "three.wav"
    tone, silence = array.array("h", [8000] * 16_000).tobytes(), bytes(32_000)
    path.write_bytes(wav([tone, silence, tone], 16_000))
    return str(path)


def test_transcribe_prints_the_text(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcribe", spoken(settings)) == 0
    assert capsys.readouterr() == ("1 3\n", "")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("srt", "1\n00:00:00,000 --> 00:00:01,000\n1\n\n2\n00:00:02,000 --> 00:00:03,000\n3\n"),
        ("vtt", "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n1\n\n00:00:02.000 --> 00:00:03.000\n3\n"),
    ],
)
def test_transcribe_writes_subtitles(settings: Path, form: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcribe", spoken(settings), "--format", form) == 0
    assert capsys.readouterr().out == text


def test_transcribe_as_json(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcribe", spoken(settings), "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["duration"]) == ("1 3", 3.0)
    assert told["segments"][1] == {"start": 2.0, "end": 3.0, "text": "3"}


def test_files_that_cannot_be_read(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "text.wav").write_text("no sound")
    assert run("transcribe", "text.wav") == 1
    assert run("transcribe", "none.wav") == 1
    assert run("vision", "text.wav") == 1
    heard, missing, seen = told(capsys)
    assert heard.startswith("[ERROR] text.wav is not a WAV file")
    assert missing == "[ERROR] none.wav: No such file or directory"
    assert seen.startswith("[ERROR] text.wav is neither PNG")


def test_vision_answers_about_the_picture(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 8, 8)
    (settings / "a.png").write_bytes(head)
    assert run("vision", "a.png", "what is this") == 0
    assert capsys.readouterr().out == f"1 images of {len(head)} bytes: what is this\n"


def test_vision_that_does_not_fit_ends_with_1(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 8, 8))
    refusing = CountingGovernor(refuse=DoesNotFit("71% of the memory; at most 70%"))
    assert run("vision", "a.png", governor=refusing) == 1
    assert capsys.readouterr() == ("", "[ERROR] 71% of the memory; at most 70%\n")


def test_wav_bytes_do_not_go_to_a_terminal() -> None:
    with typist("speak", "hello", "-o", "-") as me:
        me.sees("[ERROR] -o - writes WAV bytes")
        assert me.process.wait(timeout=20) == 1


# Ctrl-C and broken pipes


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout
    got = ""
    while text not in got:
        piece = process.stdout.read(1)
        assert piece, f"ended after {got!r}: {process.stderr and process.stderr.read()}"
        got += piece


def test_ctrl_c_ends_an_answer_with_130() -> None:
    with start("chat", "one two three four five", FAKE_DELAY="0.2") as process:
        read_until(process, "one")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "five" not in out
    assert error == ""


def test_nobody_reads_the_answer() -> None:
    with start("chat", " ".join(["word"] * 50), FAKE_DELAY="0.02") as process:
        read_until(process, "word")
        assert process.stdout
        process.stdout.close()
        assert process.wait(timeout=20) == 141
        assert process.stderr
        assert process.stderr.read() == ""


# The conversation


class Typist:
    """Someone at a terminal."""

    def __init__(self, *argv: str, **environ: str) -> None:
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, fake_cli.__file__, *argv],
            env={"PATH": os.environ["PATH"], "TERM": "dumb", "FAKE_TERMINAL": "1", **environ},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._unread = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def sees(self, text: str, seconds: float = 20.0) -> str:
        """Wait for ``text`` on the screen; what came before it."""
        until = time.monotonic() + seconds
        while text not in self._unread:
            assert select.select([self._terminal], [], [], max(0.0, until - time.monotonic()))[0], self._unread
            self._unread += self._read()
        before, _, self._unread = self._unread.partition(text)
        return before

    def _read(self) -> str:
        try:
            piece = os.read(self._terminal, 4096)
        except OSError:  # how Linux tells the end of a terminal
            piece = b""
        assert piece, f"ended after {self._unread!r}"
        return piece.decode()

    def leave(self) -> None:
        os.close(self._terminal)
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def typist(*argv: str, **environ: str) -> Iterator[Typist]:
    one = Typist(*argv, **environ)
    try:
        yield one
    finally:
        one.leave()


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
        assert me.process.wait(timeout=20) == 0


def test_exit_leaves() -> None:
    with typist("chat") as me:
        me.sees("> ")
        me.type("/exit\n")
        assert me.process.wait(timeout=20) == 0


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
        assert me.process.wait(timeout=20) == 0


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


def test_an_error_does_not_end_the_conversation() -> None:
    with typist("chat", FAKE_FAIL_ON="run") as me:
        for _ in range(2):
            me.sees("> ")
            me.type("hello\n")
            me.sees("[ERROR] fake-llm failed on run")
        me.sees("> ")
        me.type("/exit\n")
        assert me.process.wait(timeout=20) == 0


# Models


@pytest.fixture
def models(settings: Path) -> dict[str, str]:
    """An environment whose store holds hibari, in a few bytes, and nothing else."""
    folder = settings / "store" / "hibari"
    folder.mkdir(parents=True)
    (folder / "hibari.onnx").write_bytes(bytes(2048))
    manifest = {
        "name": "hibari",
        "job": "tts",
        "engine": "engines.tts_onnx:OnnxTextToSpeech",
        "licence": "Apache-2.0",
        "source": "package hibari-tts 0.2.1",
        "options": {"family": "hibari"},
        "files": {"model": {"name": "hibari.onnx", "size": 2048, "sha256": "0"}},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return {"EDGESERVE_MODELS_DIR": str(settings / "store")}


def test_list_shows_what_is_here(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", environ=models) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "JOB", "SIZE", "LICENCE", "PULLED"],
        ["hibari", "tts", "2.0", "KB", "Apache-2.0", "yes"],
    ]


def test_list_all_shows_each_model_once(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--all", environ=models) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert sorted(line.split()[0] for line in lines) == sorted(catalog.MODELS)
    assert [line.split()[0] for line in lines if line.endswith("yes")] == ["hibari"]


def test_list_of_nothing_says_what_to_do(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", environ={"EDGESERVE_MODELS_DIR": "nowhere"}) == 0
    assert "edgeserve pull starter" in capsys.readouterr().out


def test_show(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "hibari", environ=models) == 0
    here = capsys.readouterr().out
    assert "hibari.onnx" in here
    assert run("show", "WHISPER", environ=models) == 0
    assert "no; edgeserve pull whisper-tiny.en" in capsys.readouterr().out
    assert run("show", "hibary", environ=models) == 1
    assert "did you mean hibari" in told(capsys)[0]


def test_remove(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("remove", "hibari", environ=models) == 0
    assert run("remove", "hibari", environ=models) == 1
    assert "edgeserve pull hibari" in told(capsys)[0]


def test_a_damaged_model_can_be_removed(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    (Path(models["EDGESERVE_MODELS_DIR"]) / "hibari" / "hibari.onnx").unlink()
    assert run("show", "hibari", environ=models) == 1
    assert run("remove", "hibari", environ=models) == 0
    assert "`edgeserve remove hibari`" in told(capsys)[0]


def test_pull_fetches_nothing_that_is_here(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pull", "hibari", environ=models) == 0
    assert capsys.readouterr() == ("hibari: already here, 2.0 KB\n", "")


def test_pull_shows_progress_and_the_licence(
    models: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(self: Store, what: str, *, progress: Callable[[Progress], None]) -> StoredModel:
        progress(Progress(what, "download", 0, 2048))
        progress(Progress(what, "download", 2048, 2048))
        progress(Progress(what, "convert", 100, 100))
        return StoredModel(what, "llm", "engine", {}, 2048, "MIT")

    monkeypatch.setattr(Store, "pull", pull)
    assert run("pull", "smollm2", environ=models) == 0
    out, error = capsys.readouterr()
    assert out == "smollm2: pulled, 2.0 KB, licence MIT\n"
    assert error.splitlines() == [
        "smollm2: download  0% of 2.0 KB",
        "smollm2: download  100% of 2.0 KB",
        "smollm2: convert  100%",
    ]


def test_what_is_pulled_without_a_name(settings: Path) -> None:
    starter = ["smollm2-135m-instruct", "whisper-tiny.en", "hibari"]
    assert list(wanted([], load({}))) == ["small", "seeing", "hearing", "speaking"]
    assert list(wanted(["hibari", "starter", "small"], load({}))) == ["hibari", *starter[:2], "small"]
    (settings / "models.toml").unlink()
    assert list(wanted([], load({}))) == starter


def test_a_model_that_is_not_pulled_is_not_fetched_by_a_question(
    models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["chat", "hello", "--model", "smollm2"], environ=models) == 1
    assert "edgeserve pull smollm2-135m-instruct" in told(capsys)[0]


# Doctor


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read", lambda *ignored: BOX)


@pytest.mark.usefixtures("box")
def test_doctor_tells_what_is_missing(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.toml").write_text('[llm]\nmodel = "smollm2"\n[tts]\nmodel = "hibari"\n')
    assert run("doctor", environ=models) == 1
    out = capsys.readouterr().out
    assert "8.0 GB, 5.0 GB available, models may take 6.0 GB" in out
    assert "tts     hibari, pulled" in out
    assert out.endswith(
        "[ERROR] smollm2-135m-instruct (llm) is configured but not pulled\n"
        "        edgeserve pull smollm2-135m-instruct\n"
    )


@pytest.mark.usefixtures("box")
def test_doctor_finds_nothing(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.toml").write_text('[tts]\nmodel = "hibari"\n')
    assert run("doctor", environ=models) == 0
    assert capsys.readouterr().out.endswith("Nothing is missing.\n")


@pytest.mark.usefixtures("box")
def test_doctor_as_json(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.toml").write_text('[tts]\nmodel = "hibari"\n')
    (Path(models["EDGESERVE_MODELS_DIR"]) / "hibari" / "hibari.onnx").unlink()
    assert run("doctor", "--json", environ=models) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["machine"]["memory_total"] == 8 << 30
    assert facts["findings"][0]["fix"] == "edgeserve remove hibari && edgeserve pull hibari"
    by_name = {model["name"]: model for model in facts["models"]}
    assert by_name["hibari"]["configured"]
    assert by_name["smolvlm-256m"]["fit"] == {"word": "yes", "reason": ""}
    assert sorted(by_name) == sorted(catalog.MODELS)


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize("text", ["[llm]\n", "[tts]\nmodel = 'hibari'\n[memory]\nmax_percent = 7\n"])
def test_doctor_looks_on_when_the_settings_are_wrong(
    models: dict[str, str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("models.toml").write_text(text)
    assert run("doctor", environ=models) == 1
    out = capsys.readouterr().out
    assert "This machine" in out
    assert "[ERROR] models.toml" in out


# What serve says


def test_greeting_names_what_is_served_in_an_order_that_works() -> None:
    lines = list(greeting(load({}), "http://0.0.0.0:8080"))
    assert lines[0].startswith(f"edgeserve {edgeserve.__version__} serves on http://0.0.0.0:8080")
    assert [line.split() for line in lines[1:4]] == [
        ["llm", "smollm2-135m-instruct"],
        ["asr", "whisper-tiny.en"],
        ["tts", "hibari"],
    ]
    chat, speak, transcribe = (line.strip() for line in lines[5:])
    assert all(line.startswith("curl -s http://127.0.0.1:8080/v1/") for line in (chat, speak, transcribe))
    assert speak.endswith("-o hello.wav")
    assert transcribe.endswith("audio=@hello.wav")


def test_greeting_shows_only_what_is_configured(settings: Path) -> None:
    (settings / "models.toml").write_text('[asr]\nmodel = "hearing"\n')
    text = "\n".join(greeting(load({"EDGESERVE_API_KEY": "secret"}), "http://127.0.0.1:1"))
    assert "/v1/chat" not in text
    assert "recording.wav" in text
    assert '-H "Authorization: Bearer $EDGESERVE_API_KEY"' in text
    assert "secret" not in text
    (settings / "models.toml").write_text("")
    assert "models.toml lists none" in "\n".join(greeting(load({}), "http://127.0.0.1:1"))
