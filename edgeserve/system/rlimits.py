"""Limits that the kernel puts on this process and that the process cannot raise again (setrlimit(2))."""

from __future__ import annotations

from collections.abc import Mapping

NO_CORE = 1
"""Bytes of a core dump. 0 would still feed a dump to a program that collects them (core(5), kernel.core_pattern):
memory holds conversations. 1 stops both the file and the program."""


def lower(wanted: Mapping[str, int]) -> dict[str, int]:
    """Set soft and hard limits, never above the present hard limit; returns the limits now in force.

    ``wanted``: values by the resource's name without "RLIMIT_", such as {"AS": 1 << 30}, in the unit of setrlimit(2).
    Raises OSError when the system lacks a resource or refuses a value.
    """
    import resource

    limits = {}
    for name, value in wanted.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None:
            raise OSError(f"this system has no limit named RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        limits[name] = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(number, (limits[name], limits[name]))
        except ValueError as error:
            raise OSError(f"RLIMIT_{name} = {limits[name]} is refused: {error}") from error
    return limits
