"""[memory] and its variables: every name of the reference documents, and errors that name the expected value."""

from __future__ import annotations

import dataclasses

import pytest
from support.cases import each

from edgeserve.errors import ConfigError
from edgeserve.memory.policy import MemoryPolicy, read_policy
from edgeserve.settings import NO_FILE, Source

FILE = Source("models.toml")


def test_the_defaults_are_the_reference_documents_numbers() -> None:
    policy = read_policy({}, {}, NO_FILE)
    assert policy == MemoryPolicy()
    assert (policy.enabled, policy.cpu_offload) == (True, True)
    assert (policy.max_percent, policy.warm_max_percent, policy.vision_threshold) == (0.90, 0.50, 0.70)
    assert (policy.moderate_percent, policy.high_percent, policy.critical_percent) == (60, 80, 90)
    assert (policy.eviction_idle_seconds, policy.high_idle_seconds, policy.grace_seconds) == (120, 30, 5)
    assert (policy.pressure_interval, policy.switch_interval, policy.switch_timeout) == (15, 0.5, 10)
    assert policy.max_new_tokens == 4096


@each(
    ("variable", "text", "field", "value"),
    [
        ("ENABLE_MEMORY_GOVERNOR", "false", "enabled", False),
        ("GPU_MEMORY_MAX_PERCENT", "0.85", "max_percent", 0.85),
        ("CPU_MEMORY_MAX_PERCENT", "0", "warm_max_percent", 0.0),
        ("ENABLE_CPU_OFFLOAD", "off", "cpu_offload", False),
        ("EVICTION_IDLE_THRESHOLD_SECONDS", "60", "eviction_idle_seconds", 60.0),
        ("PRESSURE_CHECK_INTERVAL_SECONDS", "5", "pressure_interval", 5.0),
        ("MEMORY_THRESHOLD", "0.8", "memory_threshold", 0.8),
        ("OS_RESERVE", "2", "os_reserve_gb", 2.0),
        ("OVERRIDE_MEMORY_MB", "4096", "override_memory_mb", 4096),
        ("VISION_THRESHOLD", "0.9", "vision_threshold", 0.9),
        ("MAX_NEW_TOKENS", "512", "max_new_tokens", 512),
    ],
)
def test_a_variable_wins_over_the_file(variable: str, text: str, field: str, value: object) -> None:
    table = {field: dataclasses.asdict(MemoryPolicy())[field]}
    policy = read_policy(table, {f"EDGESERVE_{variable}": text}, FILE)
    assert getattr(policy, field) == value
    assert type(getattr(policy, field)) is type(value)


def test_the_file_is_read_without_variables() -> None:
    assert read_policy({"os_reserve_gb": 1, "cpu_offload": False}, {}, FILE) == MemoryPolicy(
        os_reserve_gb=1.0, cpu_offload=False
    )


@each(
    ("table", "environ", "expected"),
    [
        ({"max_percent": 90}, {}, r"models\.toml: \[memory\] max_percent = 90: expected a number from 0\.05 to 1"),
        ({"max_percent": float("nan")}, {}, "expected a number from"),
        ({"max_percnt": 0.9}, {}, "max_percnt is not a known setting; did you mean max_percent"),
        ({"cpu_offload": 1}, {}, "cpu_offload = 1: expected true or false"),
        ({"max_new_tokens": 1.5}, {}, r"max_new_tokens = 1\.5: expected a whole number from 1 to 1000000"),
        ({"grace_seconds": True}, {}, "grace_seconds = True: expected a number of at least 0"),
        ({"high_percent": 50.0}, {}, "pressure levels must rise"),
        (
            {},
            {"EDGESERVE_OS_RESERVE": "two"},
            "EDGESERVE_OS_RESERVE = 'two': expected a number of at least 0, or -1 for by",
        ),
        (
            {},
            {"EDGESERVE_ENABLE_CPU_OFFLOAD": "maybe"},
            "EDGESERVE_ENABLE_CPU_OFFLOAD = 'maybe': expected true or false",
        ),
        ({}, {"EDGESERVE_OVERRIDE_MEMORY_MB": "1e3"}, "EDGESERVE_OVERRIDE_MEMORY_MB = '1e3': expected a whole number"),
    ],
)
def test_a_mistake_names_its_place(table: dict[str, object], environ: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        read_policy(table, environ, FILE)
