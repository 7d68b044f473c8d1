"""Fresh interpreters: the module that they call, their flags, and a system that has no room for them."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import edgeserve
from edgeserve.errors import Busy, EngineFailure
from edgeserve.processes import interpreter


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], set[int]]]:
    """Each command that would start, with the signals that are blocked meanwhile."""
    made: list[tuple[list[str], set[int]]] = []
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **how: made.append((command, signal.pthread_sigmask(signal.SIG_BLOCK, ())))
    )
    return made


def test_the_module_is_the_one_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a package of the same name nor a module of the library's names in the working directory counts."""
    monkeypatch.chdir(tmp_path)
    for name in ("support", "json", "ctypes"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    with interpreter.begin("support.sevens", []) as process:
        assert process.wait() == 7


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="dataclasses of Python 3.13 run inspect for each class")
def test_a_worker_imports_little(capfd: pytest.CaptureFixture[str]) -> None:
    """A dataclass without a docstring would run ``inspect``, which writes one."""
    with interpreter.begin("support.lean_child", []) as process:
        code = process.wait()
    assert code == 0, capfd.readouterr().err


def test_flags_of_this_process_go_on(
    commands: list[tuple[list[str], set[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flags:
        isolated, ignore_environment, no_user_site, dont_write_bytecode = 0, 0, 1, 1
        optimize, utf8_mode, dev_mode = 2, 1, True

    monkeypatch.setattr(sys, "flags", Flags)
    interpreter.begin("some.module", [5, 6])
    (command, _) = commands[0]
    assert command[:-2] == [sys.executable, "-S", "-s", "-B", "-Xutf8", "-Xdev", "-O", "-O"]
    assert command[-1].endswith("from some.module import main; gc.freeze(); gc.unfreeze(); gc.enable(); main(5, 6)")


def test_our_packages_are_found_where_only_a_finder_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable install; the new interpreter has no module "site", which would bring the finder."""
    root = str(Path(edgeserve.__file__).parents[1])
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one not in ("", root)])
    assert interpreter.search_path()[-1] == root


def test_ctrl_c_waits_until_the_new_process_ignores_it(commands: list[tuple[list[str], set[int]]]) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    interpreter.begin("some.module", [])
    assert commands[0][1] >= {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EAGAIN, Busy), (errno.ENOMEM, Busy), (errno.EMFILE, EngineFailure)]
)
def test_a_system_that_starts_no_process_is_named(number: int, kind: type[Any]) -> None:
    error = interpreter.refusal("llm", OSError(number, "some words"))
    assert type(error) is kind
    assert error.message.startswith(f"the system starts no process for llm: some words (errno {number})")
    assert (error.retry_after is not None) == (kind is Busy)


def test_no_child_gets_keys_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: given.append(how["env"]))
    for name in (*interpreter.SECRETS, "EDGESERVE_PORT"):
        monkeypatch.setenv(name, "told")
    interpreter.begin("support.sevens", [])
    assert {"EDGESERVE_PORT"} == {name for name in (*interpreter.SECRETS, "EDGESERVE_PORT") if name in given[0]}
