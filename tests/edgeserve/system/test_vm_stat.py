"""macOS page classes from the output of vm_stat on three Macs."""

from __future__ import annotations

import pytest

from edgeserve.system.readings import SystemPressure
from edgeserve.system.vm_stat import parse, safe_available

PAGE = 16384

# RECORDED: a MacBook Pro, M5 Pro, 48 GiB, macOS 26.6.2. MINI: a Mac mini, M4, 16 GiB, macOS 26.5.1. Both were published
# with waired-agent's issue 835 (August 2026). OLD: Apple's "Viewing Virtual Memory Usage" (Memory Usage Performance
# Guidelines), when vm_stat listed fewer classes.
RECORDED = """\
Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                  1133377.
Pages active:                                 683548.
Pages inactive:                               770303.
Pages speculative:                            210943.
Pages throttled:                                   0.
Pages wired down:                             160600.
Pages purgeable:                               23665.
"Translation faults":                      129543927.
Pages copy-on-write:                         8702476.
File-backed pages:                            896753.
Anonymous pages:                              768041.
Pages stored in compressor:                   268292.
Pages occupied by compressor:                 120819.
Swapouts:                                          0.
Pages tagged:                                 141552.
Pages tag-storage free:                         5724.
"""
MINI = """\
Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                    24141.
Pages active:                                 383318.
Pages inactive:                               388196.
Pages speculative:                              1272.
Pages wired down:                             106741.
Pages purgeable:                                4133.
File-backed pages:                            409145.
Anonymous pages:                              363641.
Pages occupied by compressor:                 110063.
"""
OLD = """\
Mach Virtual Memory Statistics: (page size of 4096 bytes)
Pages free:                     3194.
Pages active:                  34594.
Pages inactive:                17870.
Pages wired down:               9878.
"Translation faults":        6333197.
"""


def test_every_class_is_read() -> None:
    pages = parse(RECORDED)
    assert pages.free == 1133377 * PAGE
    assert pages.inactive == 770303 * PAGE
    assert pages.wired == 160600 * PAGE
    assert pages.anonymous == 768041 * PAGE
    assert pages.compressor == 120819 * PAGE


@pytest.mark.parametrize("text", [RECORDED, MINI])
def test_speculative_pages_are_part_of_the_file_backed_ones(text: str) -> None:
    """The sum of the classes shows it, so speculative pages are not counted twice."""
    pages = parse(text)
    assert pages.file_backed + pages.anonymous == pages.active + pages.inactive + pages.speculative


@pytest.mark.parametrize(
    ("pressure", "count"),
    [
        (SystemPressure.NORMAL, 1133377 + 23665 + 896753),
        (SystemPressure.WARN, 1133377 + 23665 + 210943),
        (SystemPressure.CRITICAL, 1133377 + 210943),
    ],
)
def test_available_memory_shrinks_with_the_pressure(pressure: SystemPressure, count: int) -> None:
    assert safe_available(parse(RECORDED), pressure) == count * PAGE


def test_wired_anonymous_and_compressed_pages_are_not_available() -> None:
    pages = parse(RECORDED)
    available = safe_available(pages, SystemPressure.NORMAL)
    assert available < 48 * (1 << 30) - pages.wired - pages.compressor - pages.anonymous + pages.purgeable + PAGE


def test_an_older_system_that_lists_fewer_classes() -> None:
    assert parse(OLD).file_backed == 0
    assert safe_available(parse(OLD), SystemPressure.NORMAL) == 3194 * 4096
    text = "\n".join(line for line in RECORDED.splitlines() if "File-backed" not in line)
    assert safe_available(parse(text), SystemPressure.NORMAL) == (1133377 + 23665 + 210943) * PAGE


def test_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match="not the output of vm_stat: 'command not found'"):
        parse("command not found")
