"""Readings of this machine, from recorded text where that is possible."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.cases import each

from edgeserve.doctor import machine
from edgeserve.doctor.machine import Runtime, ask_runtime, first_command, known_features, read_wired_collector
from edgeserve.memory.policy import MemoryPolicy


def test_only_features_that_runtimes_have_code_for_are_shown() -> None:
    assert known_features(("avx", "avx2", "fma", "fpu", "sse")) == ("avx", "avx2", "fma")
    assert known_features(()) == ()


def test_the_first_command_that_is_there(tmp_path: Path) -> None:
    assert first_command(None, "no-such-command", sys.executable) == sys.executable
    assert first_command("no-such-command") is None


def ended(code: int, out: str = "", error: str = "") -> Any:
    return lambda *args, **kwargs: subprocess.CompletedProcess([], code, out, error)


def test_a_runtime_reports_version_and_backend() -> None:
    runtime = ask_runtime("mlx", ended(0, 'a banner\n["0.32.4", "CPU only"]\n'))
    assert (runtime.version, runtime.detail) == ("0.32.4", "CPU only")


@pytest.mark.parametrize(
    ("code", "error", "detail"),
    [
        (1, "not installed\n", "not installed"),
        (1, "Traceback …\nOSError: libcudart.so.12: cannot open\n", "OSError: libcudart.so.12: cannot open"),
        (1, "", "no reason given"),
        (-4, "", "crashed at import (signal 4)"),
    ],
)
def test_a_runtime_that_fails(code: int, error: str, detail: str) -> None:
    runtime = ask_runtime("mlx", ended(code, error=error))
    assert (runtime.version, runtime.detail) == (None, detail)


@each("out", ["", "\n", "goodbye\n", "3\n", '["1"]\n', '["1", "CPU", "more"]\n'])
def test_a_runtime_that_says_something_else(out: str) -> None:
    runtime = ask_runtime("mlx", ended(0, out))
    assert runtime.version is None
    assert runtime.detail.startswith("gave no answer")


def test_a_runtime_that_hangs() -> None:
    def hang(*args: object, timeout: float, **kwargs: object) -> Any:
        raise subprocess.TimeoutExpired("python", timeout)

    assert ask_runtime("mlx", hang).detail == "did not answer within 30 s"


@pytest.mark.slow
def test_a_missing_runtime_differs_from_a_broken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(machine.RUNTIMES, "absent", ("no_such_module_at_all", "''"))  # type: ignore[arg-type]
    monkeypatch.setitem(machine.RUNTIMES, "pip", ("json", "m.no_such_attribute"))  # type: ignore[arg-type]
    assert ask_runtime("absent").detail == "not installed"
    assert "no_such_attribute" in ask_runtime("pip").detail


@pytest.mark.models
@pytest.mark.parametrize("name", ["llama-cpp-python", "onnxruntime"])
def test_the_real_runtimes_answer(name: str) -> None:
    runtime = ask_runtime(name)
    assert runtime.version is not None, runtime.detail
    assert runtime.detail


@pytest.mark.parametrize("size", [512, 1])
def test_a_reading_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A machine of 1 MB has nothing free."""
    monkeypatch.setattr(machine, "ask_runtime", lambda name: Runtime(name, "1", "asked"))
    here = machine.read(tmp_path / "not" / "there yet", MemoryPolicy(override_memory_mb=size), {"CC": sys.executable})
    assert here.memory_total == size << 20
    assert 0 < here.memory_budget < here.memory_total
    assert here.bandwidth > 0
    assert here.disk_free > 0
    assert here.cores >= 1
    assert here.c_compiler == sys.executable
    assert [runtime.name for runtime in here.runtimes] == list(machine.RUNTIMES)


@pytest.mark.parametrize(("told", "on"), [("0", True), ("1", False), ("", None)])
def test_the_wired_collector(told: str, on: bool | None) -> None:
    """`sysctl -n iogpu.disable_wired_collector`; nothing is printed where there is no such switch."""
    asked: list[str] = []

    def ask(name: str) -> str:
        asked.append(name)
        return told

    assert read_wired_collector(ask) is on
    assert asked == ["iogpu.disable_wired_collector"]


@pytest.mark.parametrize(
    ("policy", "dedicated"),
    [(MemoryPolicy(), False), (MemoryPolicy(os_reserve_gb=0.01), True), (MemoryPolicy(os_reserve_gb=12), False)],
)
def test_a_machine_that_leaves_the_system_little_is_dedicated(
    policy: MemoryPolicy, dedicated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "ask_runtime", lambda name: Runtime(name, "1", "asked"))
    monkeypatch.setattr(machine.bandwidth, "measure", lambda *given: 1e9)
    assert machine.read(tmp_path, policy, {}).dedicated is dedicated
