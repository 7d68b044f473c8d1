"""Tags of sound files: FFmpeg compares each with all before it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from edgeserve.audio import bounds, decode
from edgeserve.errors import UnsupportedMedia

STREAM_INFO = b"\0\0\0\x22\x10\0\x10\0" + b"\0" * 6 + bytes.fromhex("0ac442f000000000") + b"\0" * 16
ADTS = bytes([0xFF, 0xF1, 0x50, 0x80, 100 >> 3, (100 & 7) << 5 | 0x1F, 0xFC]) + b"\x21" * 93


def names(count: int) -> list[bytes]:
    return [f"{number:04x}".encode() for number in range(count)]


def comment(count: int) -> bytes:
    return b"\0\0\0\0" + struct.pack("<I", count) + b"".join(b"\6\0\0\0%b=a" % name for name in names(count))


def flac(count: int) -> bytes:
    text = comment(count)
    return b"fLaC" + STREAM_INFO + b"\x84" + len(text).to_bytes(3, "big") + text


def ogg(count: int, page: int = 5) -> bytes:
    text = b"OpusTags" + comment(count)
    pieces = [text[at : at + page] for at in range(0, len(text), page)]
    return b"".join(b"OggS" + b"\0" * 22 + bytes([1, len(one)]) + one for one in pieces)


def id3(count: int) -> bytes:
    text = b"".join(b"TXXX\0\0\0\x08\0\0\3%b\0b\0" % name for name in names(count))
    size = len(text)
    return b"ID3\4\0\0" + bytes(size >> shift & 127 for shift in (21, 14, 7, 0)) + text


def wav(count: int) -> bytes:
    text = b"INFO" + b"".join(b"%b\2\0\0\0ab" % name for name in names(count))
    form = struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16)
    chunks = b"fmt \x10\0\0\0" + form + b"LIST" + struct.pack("<I", len(text)) + text + b"data\x40\0\0\0" + b"\0" * 64
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks


@pytest.mark.parametrize(
    "data", [flac(5000), ogg(5000), id3(5000), ADTS * 20 + id3(5000) + ADTS], ids=["flac", "ogg", "id3", "aac"]
)
def test_many_tags_are_refused_before_they_are_read(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia, match="more than 4096 tags"):
        decode.check(data, 60, "audio")


@pytest.mark.parametrize(("make", "others"), [(flac, 1), (ogg, 0), (id3, 0)], ids=["flac", "ogg", "id3"])
def test_tags_are_counted(make: Callable[[int], bytes], others: int) -> None:
    assert bounds.tags(make(100)) == 100 + others


def test_comments_count_together() -> None:
    text = comment(3000)
    block = b"\4" + len(text).to_bytes(3, "big") + text
    assert bounds.tags(b"fLaC" + STREAM_INFO + 2 * block) > bounds.MAX_TAGS
    assert bounds.tags(2 * ogg(3000)) > bounds.MAX_TAGS


def test_counting_ends_at_the_limit() -> None:
    assert bounds.tags(b"fLaC" + b"\4\0\0\0" * 100_000) == bounds.MAX_TAGS + 1


def test_a_vendor_without_an_end_counts_as_too_many_tags() -> None:
    text = (1 << 20).to_bytes(4, "little") + b"a" * 2000
    data = b"fLaC" + STREAM_INFO + b"\x84" + len(text).to_bytes(3, "big") + text
    assert bounds.tags(data) > bounds.MAX_TAGS


def test_a_file_that_takes_too_long_to_open_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decode.check(wav(100), 60, "audio") > 0
    monkeypatch.setattr(bounds.Opening.__init__, "__defaults__", (-1.0,))
    with pytest.raises(UnsupportedMedia, match="too long to open"):
        decode.check(wav(100), 60, "audio")


def test_boxes_are_not_gathered() -> None:
    boxes = b"\0\0\0\x08trak" + b"\0\0\0\x08free" * 3
    parts = bounds._without_sound(boxes)
    assert next(parts) == (0, 8)
    assert len([*parts]) == 3
    assert bounds.edits(boxes) == 0
