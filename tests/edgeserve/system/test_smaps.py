"""Mappings from recorded lines of /proc/self/maps and /proc/self/smaps."""

from __future__ import annotations

from pathlib import Path

from edgeserve.system.smaps import Mapping, parse, read

SMAPS = """\
7f00-7f10 r--p 00000000 08:01 2                  /models/my model.gguf
Size:                 64 kB
Rss:                  16 kB
Anonymous:             4 kB
VmFlags: rd mr mw me
7f10-7f18 r-xp 00010000 08:01 2                  /usr/lib/libone.so
Rss:                   8 kB
Anonymous:             0 kB
7f50-7f60 rw-p 00000000 00:00 0
Rss:                  64 kB
7f60-7f70 r--p 00000000 08:01 2                  /models/my model.gguf
Rss:                   4 kB
Anonymous:             0 kB
"""
MODEL = "/models/my model.gguf"
FIRST = Mapping(0x7F00, 0x10, "r--p", MODEL, 16 << 10, 4 << 10)
SECOND = Mapping(0x7F60, 0x10, "r--p", MODEL, 4 << 10)


def test_every_range_of_a_wanted_file_is_read() -> None:
    assert list(parse(SMAPS.splitlines(), MODEL.__eq__)) == [FIRST, SECOND]


def test_maps_has_no_resident_pages() -> None:
    heads = [line for line in SMAPS.splitlines() if "-" in line]
    assert list(parse(heads, MODEL.__eq__)) == [
        Mapping(0x7F00, 0x10, "r--p", MODEL),
        Mapping(0x7F60, 0x10, "r--p", MODEL),
    ]


def test_a_file_that_is_not_wanted_has_no_range() -> None:
    assert list(parse(SMAPS.splitlines(), lambda path: False)) == []


def test_a_system_without_the_listing_has_no_mapping(tmp_path: Path) -> None:
    assert list(read(tmp_path / "smaps", lambda path: True)) == []
