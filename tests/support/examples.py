"""The number of examples that Hypothesis tries: few in ``make check``, many with ``--hypothesis-profile thorough``."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

USUAL = 100
PROFILES = {"check": USUAL // 5, "test": USUAL, "thorough": USUAL * 50}
"""Examples of a property that names no number of its own, by profile of Hypothesis."""


def register_profiles() -> None:
    for name, count in PROFILES.items():
        settings.register_profile(name, max_examples=count, deadline=None)
    settings.load_profile("test")


def examples(count: int, **more: Any) -> settings:
    """Settings with ``count`` examples in ``make test``; the other profiles multiply the number."""
    return settings(max_examples=max(1, count * settings().max_examples // USUAL), deadline=None, **more)
