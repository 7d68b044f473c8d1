"""A Mac's memory from recorded lines of sysctl."""

from __future__ import annotations

import pytest
from support.cases import each

from edgeserve.system import sysctl
from edgeserve.system.readings import SystemPressure
from edgeserve.system.sysctl import parse, pressure, working_set
from edgeserve.units import GB, MB

# Lines that sysctl printed on a Mac mini, M2 Pro, 32 GiB, macOS 26.5.1 (a public log of 2026-09-05), one call for each
# name. The line of the level has the same form.
RECORDED = "hw.memsize: 34359738368\nkern.memorystatus_vm_pressure_level: 1\niogpu.wired_limit_mb: 0\n"
INTEL = "hw.memsize: 17179869184\nkern.memorystatus_vm_pressure_level: 1\n"


def test_one_value_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysctl.sys, "platform", "darwin")
    monkeypatch.setattr(sysctl.commands, "output", lambda command: "machdep.cpu.brand_string: Apple M4: Pro")
    assert sysctl.value("machdep.cpu.brand_string") == "Apple M4: Pro"
    monkeypatch.setattr(sysctl.commands, "output", lambda command: "")
    assert sysctl.value("no.such.name") == ""


@pytest.mark.skipif(sysctl.sys.platform == "darwin", reason="this system has sysctl values")
def test_other_systems_have_no_value() -> None:
    assert sysctl.value("hw.memsize") == ""


def test_every_line_is_read() -> None:
    assert parse(RECORDED) == {
        "hw.memsize": 32 * GB,
        "kern.memorystatus_vm_pressure_level": 1,
        "iogpu.wired_limit_mb": 0,
    }


def test_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not the output of /usr/sbin/sysctl -i hw\.memsize"):
        parse("sysctl: unknown oid 'hw.memsize'\n")


@each(
    ("text", "level"),
    [
        (RECORDED, SystemPressure.NORMAL),
        (RECORDED.replace("level: 1", "level: 2"), SystemPressure.WARN),
        (RECORDED.replace("level: 1", "level: 4"), SystemPressure.CRITICAL),
        (RECORDED.replace("level: 1", "level: 3"), SystemPressure.WARN),
        ("hw.memsize: 1\n", SystemPressure.WARN),
    ],
)
def test_pressure_level(text: str, level: SystemPressure) -> None:
    assert pressure(parse(text)) is level


@each(
    ("total", "recommended"),
    [
        # Published values of mx.device_info()["max_recommended_working_set_size"]: M1, macOS 13.7; M4 Pro; a 64 GB
        # machine; M5 Max; M3 Ultra.
        (16 * GB, 11_453_251_584),
        (48 * GB, 40_200_896_512),
        (64 * GB, 55_662_788_608),
        (128 * GB, 115_448_725_504),
        (256 * GB, 223_338_299_392),
    ],
)
def test_the_default_share_is_never_above_published_recommendations(total: int, recommended: int) -> None:
    expected = working_set({"iogpu.wired_limit_mb": 0}, total)
    assert expected is not None
    assert 0.88 * recommended < expected <= recommended + MB


def test_the_share_changes_at_36_gb() -> None:
    values = {"iogpu.wired_limit_mb": 0}
    assert working_set(values, 36 * GB) == 24 * GB
    assert working_set(values, 48 * GB) == 36 * GB


def test_a_wired_limit_replaces_the_default_share() -> None:
    # Seen on an M5 Max of 128 GB: with wired_limit_mb = 114688 Metal recommends 112.00 GiB.
    assert working_set({"iogpu.wired_limit_mb": 114688}, 128 * GB) == 112 * GB
    assert working_set({"iogpu.wired_limit_mb": 114688}, 64 * GB) == 64 * GB


def test_an_intel_mac_shares_no_memory_with_its_gpu() -> None:
    assert working_set(parse(INTEL), 16 * GB) is None
