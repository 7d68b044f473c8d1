"""macOS page classes from the text of vm_stat as an M-series machine prints it."""

from __future__ import annotations

import pytest

from edgeserve.memory.readings import SystemPressure
from edgeserve.memory.vm_stat import parse, safe_available

PAGE = 16384
RECORDED = """\
Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               45210.
Pages active:                            612345.
Pages inactive:                          598877.
Pages speculative:                        12034.
Pages throttled:                              0.
Pages wired down:                        201456.
Pages purgeable:                           8312.
"Translation faults":                1290123456.
Pages copy-on-write:                   48123456.
Pages zero filled:                    612345678.
Pages reactivated:                      9123456.
Pages purged:                           3123456.
File-backed pages:                       301234.
Anonymous pages:                         921987.
Pages stored in compressor:              412345.
Pages occupied by compressor:            101234.
Decompressions:                         5123456.
Compressions:                           7123456.
Pageins:                               21234567.
Pageouts:                                 61234.
Swapins:                                 312345.
Swapouts:                                412345.
"""


def test_every_class_is_read() -> None:
    pages = parse(RECORDED)
    assert pages.free == 45210 * PAGE
    assert pages.inactive == 598877 * PAGE
    assert pages.wired == 201456 * PAGE
    assert pages.anonymous == 921987 * PAGE
    assert pages.compressor == 101234 * PAGE


@pytest.mark.parametrize(
    ("pressure", "count"),
    [
        (SystemPressure.NORMAL, 45210 + 12034 + 8312 + 301234),
        (SystemPressure.WARN, 45210 + 12034 + 8312),
        (SystemPressure.CRITICAL, 45210 + 12034),
    ],
)
def test_what_is_safe_to_count_on_shrinks_with_the_pressure(pressure: SystemPressure, count: int) -> None:
    assert safe_available(parse(RECORDED), pressure) == count * PAGE


def test_intel_pages_are_smaller() -> None:
    assert parse(RECORDED.replace("16384", "4096")).free == 45210 * 4096


def test_an_older_system_that_tells_less() -> None:
    text = "\n".join(line for line in RECORDED.splitlines() if "File-backed" not in line)
    assert parse(text).file_backed == 0


def test_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match="not the output of vm_stat: 'command not found'"):
        parse("command not found")
