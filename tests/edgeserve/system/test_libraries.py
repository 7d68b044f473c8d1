"""Pages of shared libraries: which ranges are dropped, and that dropped code still runs."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import pytest

from edgeserve.system import libraries

SMAPS = """\
55d0-55e0 r--p 00000000 08:01 1 /usr/bin/python3.11
Rss:                  40 kB
Anonymous:             0 kB
7f00-7f10 r-xp 00000000 08:01 2                  /usr/lib/my libs/libone.so
Size:                 64 kB
Rss:                  16 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
7f10-7f18 r--p 00010000 08:01 2                  /usr/lib/my libs/libone.so
Rss:                   8 kB
Anonymous:             8 kB
7f18-7f20 rw-p 00010000 08:01 2                  /usr/lib/my libs/libone.so
Rss:                   8 kB
Anonymous:             0 kB
7f20-7f30 r-xp 00000000 08:01 3                  /usr/lib/libtwo.so.1.10.3
Rss:                   0 kB
Anonymous:             0 kB
7f30-7f40 r--p 00000000 08:01 4                  /usr/lib/libthree.so.6
Rss:                  64 kB
Anonymous:             0 kB
7f40-7f50 r--p 00000000 08:01 5                  /home/me/model.gguf
Rss:                  64 kB
Anonymous:             0 kB
7f50-7f60 rw-p 00000000 00:00 0
Rss:                  64 kB
Anonymous:            64 kB
"""


def test_only_clean_resident_ranges_of_libraries_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "smaps").write_text(SMAPS)
    found = [(one.start, one.size, one.resident) for one in libraries.clean_ranges(tmp_path / "smaps")]
    assert found == [(0x7F00, 0x10, 16 << 10), (0x7F30, 0x10, 64 << 10)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists its mappings")
def test_dropped_code_comes_back() -> None:
    before = sum(one.resident for one in libraries.clean_ranges())
    assert libraries.drop_pages() >= 0.9 * before > 0
    after = sum(one.resident for one in libraries.clean_ranges())
    assert after < before
    assert zlib.crc32(b"edgeserve") == 0x1336F831


def test_a_system_without_the_listing_has_no_ranges(tmp_path: Path) -> None:
    assert list(libraries.clean_ranges(tmp_path / "smaps")) == []
