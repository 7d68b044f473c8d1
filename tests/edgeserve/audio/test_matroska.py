"""Tags, chapters and indexes of Matroska are counted before FFmpeg reads them."""

from __future__ import annotations

import pytest
from support.cases import each
from support.sounds import FORMS, encoded, melody

from edgeserve.audio import decode, matroska
from edgeserve.audio.matroska import surplus
from edgeserve.errors import UnsupportedMedia

HEAD = matroska.BEGIN + b"\x8b\x42\x82\x88matroska"
TAGS, CHAPTERS, CUES = b"\x12\x54\xc3\x67", b"\x10\x43\xa7\x70", b"\x1c\x53\xbb\x6b"


def element(name: bytes, content: bytes, width: int = 8) -> bytes:
    return name + (len(content) | 1 << 7 * width).to_bytes(width, "big") + content


def tag(number: int) -> bytes:
    return element(b"\x73\x73", element(b"\x67\xc8", element(b"\x45\xa3", b"%x" % number, 1), 1), 1)


def file(content: bytes) -> bytes:
    return HEAD + element(b"\x18\x53\x80\x67", content)


def tags(count: int) -> bytes:
    return element(TAGS, b"".join(map(tag, range(count))))


def chapters(count: int) -> bytes:
    return element(CHAPTERS, element(b"\x45\xb9", b"\xb6\x80" * count))


def cues(count: int) -> bytes:
    return element(CUES, element(b"\xbb", element(b"\xb3", b"\1") + b"\xb7\x86\xf7\x81\1\xf1\x81\1" * count))


@each(
    ("content", "told"),
    [
        (tags(600), "512 tags"),
        (b"".join(element(TAGS, tag(one)) for one in range(600)), "512 tags"),
        (TAGS + b"\x01" + b"\xff" * 7 + b"".join(map(tag, range(600))), "512 tags"),
        (TAGS + b"\x80" + TAGS + b"\x41" + b"\0" * 1 + tags(600), "512 tags"),
        (TAGS + b"\x08" + b"\xff" * 4 + b"".join(map(tag, range(600))), "512 tags"),
        (element(TAGS, element(b"\x73\x73", element(b"\x67\xc8", b"", 1) * 600)), "512 tags"),
        (element(TAGS, b"") * 600, "512 tags"),
        (chapters(20_001), "20000 chapters"),
        (cues(50_001), "50000 entries"),
        (element(matroska.TRACKS, b"A_FLAC" + b"a" * 64_000), "FLAC"),
        (element(matroska.TRACKS, b"A_FLAC" + element(matroska.ENCODINGS, b"")), "FLAC"),
    ],
)
def test_what_is_too_much_is_told(content: bytes, told: str) -> None:
    data = file(content)
    assert told in surplus(data)
    with pytest.raises(UnsupportedMedia, match=told):
        decode.check(data, 60, "audio")


@each(
    "content",
    [
        tags(512),
        chapters(20_000),
        cues(50_000),
        element(matroska.TRACKS, b"A_OPUS" + b"a" * 64_001 + matroska.ENCODINGS),
        element(b"\xa3", b"\x73\x73\x67\xc8\xb6\xb7" * 60_000),
        TAGS,
    ],
)
def test_the_limits_themselves_and_the_same_bytes_in_sound_pass(content: bytes) -> None:
    assert surplus(file(content)) == ""


@pytest.mark.parametrize("name", FORMS)
def test_common_files_have_nothing_too_much(name: str) -> None:
    data = encoded(melody(3, FORMS[name].rate), FORMS[name], title="Mississippi", comment="less is more " * 30)
    assert surplus(data) == ""


def test_flac_in_matroska_is_read() -> None:
    form = type(FORMS["flac"])("matroska", "flac")
    assert decode.check(encoded(melody(3, 44_100), form), 60, "audio") == pytest.approx(3, abs=0.1)
