"""MP4 files of some hundred bytes whose tables promise as much as anybody likes."""

from __future__ import annotations

import struct


def promising(samples: int = 20, *, tracks: int = 1, edits: int = 0, fragment: int = 0) -> bytes:
    """Tracks of AAC. ``samples`` and ``edits``: of each; ``fragment``: samples of one more run, a byte each."""
    head, sound = _box(b"ftyp", b"M4A \0\0\0\0M4A mp42"), _box(b"mdat", b"\x21\x10\x04\x60\x8c\x1c" * 40)
    tracks_ = b"".join(_track(number, samples, edits, len(head) + 8) for number in range(1, tracks + 1))
    extends = _box(b"mvex", _full(b"trex", struct.pack(">IIIII", 1, 1, 1024, 1, 0))) if fragment else b""
    times = _full(b"mvhd", struct.pack(">IIII", 0, 0, 1000, 1000) + bytes(80))
    run = _box(b"traf", _full(b"tfhd", struct.pack(">I", 1), 0x20000) + _full(b"trun", struct.pack(">I", fragment)))
    rest = _box(b"moof", _full(b"mfhd", struct.pack(">I", 1)) + run) if fragment else b""
    return head + sound + _box(b"moov", times + tracks_ + extends) + rest


def _box(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), name) + body


def _full(name: bytes, body: bytes, flags: int = 0) -> bytes:
    return _box(name, struct.pack(">I", flags) + body)


def _track(number: int, samples: int, edits: int, offset: int) -> bytes:
    config = bytes([5, 2, 0x12, 0x10])  # AAC LC, 44.1 kHz, two channels
    decoder = bytes([4, 13 + len(config), 0x40, 0x15]) + bytes(11) + config
    described = _full(b"esds", bytes([3, 6 + len(decoder), 0, 1, 0]) + decoder + bytes([6, 1, 2]))
    form = struct.pack(">6xH8xHHHHI", 1, 2, 16, 0, 0, 44100 << 16) + described
    table = _box(
        b"stbl",
        _full(b"stsd", struct.pack(">I", 1) + _box(b"mp4a", form))
        + _full(b"stts", struct.pack(">III", 1, samples, 1024))
        + _full(b"stsc", struct.pack(">IIII", 1, 1, samples, 1))
        + _full(b"stsz", struct.pack(">II", 1, samples))
        + _full(b"stco", struct.pack(">II", 1, offset)),
    )
    here = _box(b"dinf", _full(b"dref", struct.pack(">I", 1) + _full(b"url ", b"", 1)))
    media = _full(b"mdhd", struct.pack(">IIIIHH", 0, 0, 44100, 20480, 0x55C4, 0))
    media += _full(b"hdlr", b"\0\0\0\0soun" + bytes(13)) + _box(b"minf", _full(b"smhd", bytes(4)) + here + table)
    head = _full(b"tkhd", struct.pack(">IIIII", 0, 0, number, 0, 1000) + bytes(60), 7)
    one = struct.pack(">IiI", 0x7FFFFFFF, 0, 0x10000)
    cuts = _box(b"edts", _full(b"elst", struct.pack(">I", edits) + one * edits)) if edits else b""
    return _box(b"trak", head + cuts + _box(b"mdia", media))
