"""Name and features of recorded processors."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.system import cpu

X86 = """\
processor\t: 0
model name\t: Intel(R) N100
flags\t\t: fpu sse2 avx2

processor\t: 1
model name\t: Intel(R) N100
flags\t\t: avx2 sse2
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp\nCPU part\t: 0xd0b\n\nprocessor\t: 1\nFeatures\t: fp asimd\n"


@pytest.mark.parametrize(
    ("text", "features"), [(X86, ("avx2", "sse2")), (ARM, ("asimd", "fp")), ("", ())], ids=["x86", "arm", "empty"]
)
def test_features_of_all_cores(tmp_path: Path, text: str, features: tuple[str, ...]) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert cpu.features(tmp_path / "cpuinfo") == features


def test_a_mini_pc_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(X86)
    assert cpu.name(tmp_path / "cpuinfo") == "Intel(R) N100"


def test_an_arm_processor_has_the_boards_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(ARM)
    (tmp_path / "model").write_text("Raspberry Pi 5 Model B Rev 1.0\0")
    monkeypatch.setattr(cpu, "BOARD", tmp_path / "model")
    assert cpu.name(tmp_path / "cpuinfo") == "Raspberry Pi 5 Model B Rev 1.0"


def test_a_system_without_cpuinfo_names_its_processor_all_the_same(tmp_path: Path) -> None:
    assert cpu.name(tmp_path / "none") != ""
    assert cpu.features(tmp_path / "none") == ()


def test_a_macs_features_are_the_text_of_sysctl(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...]) -> str:
        commands.append(command)
        return "machdep.cpu.brand_string: Apple M4\n"

    monkeypatch.setattr(cpu.sys, "platform", "darwin")
    monkeypatch.setattr(cpu.command, "run", run)
    assert cpu.identity() == "machdep.cpu.brand_string: Apple M4\n"
    assert commands == [("/usr/sbin/sysctl", "-i", "machdep.cpu.brand_string", "hw.optional")]
