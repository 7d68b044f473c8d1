"""The number of examples that Hypothesis tries: few in ``make check``, many with ``--hypothesis-profile thorough``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, settings

USUAL = 100
PROFILES = {"check": USUAL // 5, "test": USUAL, "thorough": USUAL * 50}
"""Examples of a property that names no number of its own, by profile of Hypothesis."""


SLOW = HealthCheck.too_slow
"""Ignored: the first draw of a process parses the sources of all modules. On a busy machine it takes half a minute."""


def register_profiles() -> None:
    for name, count in PROFILES.items():
        settings.register_profile(name, max_examples=count, deadline=None, suppress_health_check=[SLOW])
    settings.load_profile("test")


def examples(count: int, suppress_health_check: Iterable[HealthCheck] = (), **more: Any) -> settings:
    """Settings with ``count`` examples in ``make test``; the other profiles multiply the number."""
    number = max(1, count * settings().max_examples // USUAL)
    checks = {SLOW, *suppress_health_check}
    return settings(max_examples=number, deadline=None, suppress_health_check=checks, **more)
