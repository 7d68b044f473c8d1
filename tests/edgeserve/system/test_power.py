"""Batteries by the files of Linux and the words of macOS."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.system.power import on_battery


def supply(folder: Path, name: str, **files: str) -> None:
    (folder / name).mkdir(parents=True)
    for file, text in files.items():
        (folder / name / file).write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("status", "scope", "expected"),
    [
        ("Discharging", "", True),
        ("Charging", "", False),
        ("Not charging", "System", False),
        ("Discharging", "System", True),
        ("Discharging", "Device", False),
    ],
)
def test_a_battery_that_empties_is_told(tmp_path: Path, status: str, scope: str, expected: bool) -> None:
    supply(tmp_path, "AC", type="Mains", online="0")
    supply(tmp_path, "BAT0", type="Battery", status=status, **({"scope": scope} if scope else {}))
    assert on_battery(tmp_path, platform="linux") is expected


def test_a_machine_without_a_battery_is_on_mains(tmp_path: Path) -> None:
    assert not on_battery(tmp_path / "none", platform="linux")


def test_macos_says_where_its_power_comes_from() -> None:
    for source in ("Battery", "AC"):
        said = f"Now drawing from '{source} Power'\n -InternalBattery-0 (id=1)\t80%; discharging; 3:10 remaining"
        assert on_battery(run=lambda command, said=said: said, platform="darwin") is (source == "Battery")
