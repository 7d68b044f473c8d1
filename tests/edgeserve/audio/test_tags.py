"""Tags of sound files: FFmpeg compares each with all before it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from support.cases import each
from support.ogg import page, pages
from support.sounds import FORMS, encoded, melody

from edgeserve.audio import bounds, decode
from edgeserve.audio.tags import MAX_TAGS, MAX_WRONG, tags
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


def ogg(count: int, segments: int = 255) -> bytes:
    return pages([b"OpusTags" + comment(count)], segments=segments)


def id3(count: int) -> bytes:
    text = b"".join(b"TXXX\0\0\0\x08\0\0\3%b\0b\0" % name for name in names(count))
    size = len(text)
    return b"ID3\4\0\0" + bytes(size >> shift & 127 for shift in (21, 14, 7, 0)) + text


def wav(count: int) -> bytes:
    text = b"INFO" + b"".join(b"%b\2\0\0\0ab" % name for name in names(count))
    form = struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16)
    chunks = b"fmt \x10\0\0\0" + form + b"LIST" + struct.pack("<I", len(text)) + text + b"data\x40\0\0\0" + b"\0" * 64
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks


def frames(name: bytes, count: int) -> bytes:
    """A tag of ID3 of so many frames."""
    text = b"".join(name + b"\0\0\0\6\0\0%b\0a" % one for one in names(count))
    return b"ID3\3\0\0" + bytes(len(text) >> shift & 127 for shift in (21, 14, 7, 0)) + text


def prefixed(data: bytes) -> bytes:
    """A file behind two empty tags of ID3, the second with a footer."""
    return b"ID3\3\0\0\0\0\0\x10" + b"\0" * 16 + b"ID3\4\0\x10\0\0\0\0" + b"3DI\4\0\x10\0\0\0\0" + data


def packet(form: str, text: bytes) -> list[bytes]:
    """The packets of headers of other codecs in Ogg, up to the comment."""
    return {
        "flac": [b"\x7fFLAC\1\0\0\1fLaC" + STREAM_INFO, b"\x84" + len(text).to_bytes(3, "big") + text],
        "speex": [b"Speex   1.2" + bytes(70), text],
        "theora": [b"\x80theora\3\2\1" + bytes(35), b"\x81theora" + text],
        "vp8": [b"OVP80\1\1\0" + bytes(18), b"OVP80\2 " + text],
        "ogm": [b"\1video\0\0\0" + bytes(50), b"\3unknwn" + text],
    }[form]


MANY = [
    flac(5000),
    ogg(5000),
    ogg(5000, segments=1),
    id3(5000),
    ADTS * 20 + id3(5000) + ADTS,
    frames(b"PRIV", 5000) + ADTS * 20,
    prefixed(flac(5000)),
    prefixed(ogg(5000)),
]
NAMES = ["flac", "ogg", "ogg-pieces", "id3", "aac", "private", "id3-flac", "id3-ogg"]


@each("data", MANY)
def test_many_tags_are_refused_before_they_are_read(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia, match="more than 4096 tags"):
        decode.check(data, 60, "audio")


@pytest.mark.parametrize("form", ["flac", "speex", "theora", "vp8", "ogm"])
def test_comments_of_every_form_in_ogg_are_counted(form: str) -> None:
    assert tags(pages([*packet(form, comment(5000)), b"sound" * 100])) > MAX_TAGS
    assert tags(pages([*packet(form, comment(100)), b"sound" * 100])) <= 100


def test_a_comment_that_begins_within_a_page_is_counted() -> None:
    text = comment(5000)
    first, rest = text[:2550], text[2550:]
    stream = pages([b"Speex   1.2" + bytes(70)])
    stream += page(b"begin" + first, b"\5" + b"\xff" * 10, 0, 1, 1)
    sizes = b"\xff" * (len(rest) // 255) + bytes([len(rest) % 255])
    stream += page(rest, sizes, 1, 1, 2)
    assert tags(stream) > MAX_TAGS


def test_what_looks_like_comments_counts_together() -> None:
    text = (b"\0\0\0\0\0\x10\0\0" + b"\1\0\0\0a" * 50)[:255]
    own = tags(page(text, b"\xff", 0, 1, 0))
    assert 40 < own < 50
    assert tags(page(text, b"\xff", 0, 1, 0) * 200) > MAX_TAGS


def test_a_comment_within_a_page_of_a_wrong_checksum_is_counted() -> None:
    hidden = ogg(5000)
    broken = bytearray(page(hidden[:255], b"\xff", 2, 9, 0) + hidden[255:])
    broken[22] ^= 1
    assert tags(bytes(broken)) > MAX_TAGS


def test_pages_of_wrong_checksums_count_up_to_a_limit() -> None:
    right = pages([b"a"])
    wrong = right[:22] + bytes([right[22] ^ 1]) + right[23:]
    assert tags(right + MAX_WRONG * wrong) == 0
    assert tags(right + (MAX_WRONG + 1) * wrong) > MAX_TAGS


def test_pages_in_pages_are_read_no_longer_than_the_file() -> None:
    """Each holds the next ones. A file of 4 MB took 930 MB and 7 s."""
    data = bytes(5100)
    for _ in range(9):
        data = page(data[:5100], b"\xff" * 20, 0, 1, 0) + data[5100:]
    assert tags(data) > MAX_TAGS


@pytest.mark.parametrize("name", FORMS)
def test_sound_is_taken_for_no_tags(name: str) -> None:
    assert tags(encoded(melody(3, FORMS[name].rate), FORMS[name])) <= 10


@pytest.mark.parametrize("name", ["flac", "ogg", "opus", "mp3", "aac"])
def test_sound_behind_id3_is_read(name: str) -> None:
    data = encoded(melody(3, FORMS[name].rate), FORMS[name])
    assert tags(prefixed(data)) <= 10
    assert decode.check(prefixed(data), 60, "audio") == pytest.approx(3, abs=0.2)


@pytest.mark.parametrize(("make", "others"), [(flac, 1), (ogg, 0), (id3, 0)], ids=["flac", "ogg", "id3"])
def test_tags_are_counted(make: Callable[[int], bytes], others: int) -> None:
    assert tags(make(100)) == 100 + others


def test_comments_count_together() -> None:
    text = comment(3000)
    block = b"\4" + len(text).to_bytes(3, "big") + text
    assert tags(b"fLaC" + STREAM_INFO + 2 * block) > MAX_TAGS
    assert tags(2 * ogg(3000)) > MAX_TAGS


def test_counting_ends_at_the_limit() -> None:
    assert tags(b"fLaC" + b"\4\0\0\0" * 100_000) == MAX_TAGS + 1


def test_a_vendor_without_an_end_counts_as_too_many_tags() -> None:
    text = (1 << 20).to_bytes(4, "little") + b"a" * 2000
    data = b"fLaC" + STREAM_INFO + b"\x84" + len(text).to_bytes(3, "big") + text
    assert tags(data) > MAX_TAGS


def test_a_file_that_takes_too_long_to_open_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decode.check(wav(100), 60, "audio") > 0
    monkeypatch.setattr(bounds.Opening.__init__, "__defaults__", (-1.0,))
    with pytest.raises(UnsupportedMedia, match="too long to open"):
        decode.check(wav(100), 60, "audio")


@pytest.mark.slow
def test_a_file_that_takes_too_long_to_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(melody(30, 44_100), FORMS["flac"])
    assert decode.check(data, 60, "audio") == pytest.approx(30, abs=0.1)
    monkeypatch.setattr(decode, "READ_SECONDS", -1.0)
    with pytest.raises(UnsupportedMedia, match="too long to read"):
        decode.check(data, 60, "audio")
    assert [*decode.pieces(data, 60, "audio")]


def test_boxes_are_not_gathered() -> None:
    boxes = b"\0\0\0\x08trak" + b"\0\0\0\x08free" * 3
    parts = bounds._without_sound(boxes)
    assert next(parts) == (0, 8)
    assert len([*parts]) == 3
    assert bounds.edits(boxes) == 0
