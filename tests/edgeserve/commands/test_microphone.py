"""Programs that record, and their stand-in of a package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgeserve.commands.microphone import PROGRAMS, Microphone
from edgeserve.errors import EngineFailure, NotSupported

PIECE = 3_200
"""Bytes of a tenth of a second at 16 kHz."""


def program(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\necho "$@" > {folder}/{name}.argv\n{script}\n')
    file.chmod(0o755)


@pytest.mark.parametrize("name", [one.name for one in PROGRAMS])
def test_a_program_records(tmp_path: Path, name: str) -> None:
    program(tmp_path, name, "exec cat /dev/zero")
    with Microphone({"PATH": str(tmp_path)}).recording() as pieces:
        assert [next(pieces), next(pieces)] == [bytes(PIECE)] * 2
    assert "16000" in (tmp_path / f"{name}.argv").read_text()


def test_a_recording_at_another_rate(tmp_path: Path) -> None:
    program(tmp_path, "arecord", "exec cat /dev/zero")
    with Microphone({"PATH": str(tmp_path)}, 24_000).recording() as pieces:
        assert len(next(pieces)) == 4_800
    assert "24000" in (tmp_path / "arecord.argv").read_text()


def test_a_program_that_ends(tmp_path: Path) -> None:
    program(tmp_path, "arecord", "exit 3")
    with (
        Microphone({"PATH": str(tmp_path)}).recording() as pieces,
        pytest.raises(EngineFailure, match="arecord records nothing; it ended with exit code 3"),
    ):
        next(pieces)


def test_nothing_can_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(NotSupported, match=r"parec, arecord, rec.*edgeserve\[microphone\]"):
        Microphone({"PATH": str(tmp_path)})


class Stream:
    """An input that gives two pieces as soon as it is open."""

    def __init__(self, error: Exception | None, **form: Any) -> None:
        if error:
            raise error
        self.form = form

    def __enter__(self) -> Stream:
        for number in (1, 2):
            self.form["callback"](bytearray([number] * self.form["blocksize"] * 2), self.form["blocksize"], None, None)
        return self

    def __exit__(self, *ignored: object) -> None:
        return None


def package(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    module: Any = ModuleType("sounddevice")
    module.PortAudioError = type("PortAudioError", (Exception,), {})
    error = module.PortAudioError("no device") if fails else None
    module.RawInputStream = lambda **form: Stream(error, **form)
    monkeypatch.setitem(sys.modules, "sounddevice", module)


def test_the_package_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package(monkeypatch, fails=False)
    with Microphone({"PATH": str(tmp_path)}).recording() as pieces:
        assert [next(pieces), next(pieces)] == [b"\1" * PIECE, b"\2" * PIECE]


def test_a_package_without_a_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package(monkeypatch, fails=True)
    with (
        pytest.raises(EngineFailure, match="the microphone cannot be opened: no device"),
        Microphone({"PATH": str(tmp_path)}).recording(),
    ):
        pass
