"""Small files that make a decoder work for minutes, or fill the memory. None is written out before it is needed."""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Callable, Mapping

from support.mp4 import promising

MB = 1 << 20
PNG = b"\x89PNG\r\n\x1a\n"


def fragment(samples: int = 80_000_000) -> bytes:
    """An MP4 file of 1.6 kB: one run of a fragment states so many samples, of a byte each."""
    return promising(fragment=samples)


def compressed_movie(megabytes: int = 1024) -> bytes:
    """An MP4 file whose ``moov`` is compressed (``cmov``, QuickTime File Format) and inflates to so many MB."""
    moov = struct.pack(">I", megabytes * MB) + zeros(megabytes)
    inner = _box(b"dcom", b"zlib") + _box(b"cmvd", moov)
    return _box(b"ftyp", b"qt  \0\0\0\0qt  ") + _box(b"moov", _box(b"cmov", inner)) + _box(b"mdat", bytes(64))


def _box(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), name) + body


def zeros(megabytes: int) -> bytes:
    """Deflated zeros, made without inflating them: blocks that refer to nothing before them can be repeated."""
    packer = zlib.compressobj(9, wbits=-15)
    return b"\x78\xda" + megabytes * (packer.compress(bytes(MB)) + packer.flush(zlib.Z_FULL_FLUSH))


def chunk(kind: bytes, body: bytes = b"") -> bytes:
    """A chunk of PNG."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(megabytes: int = 1024, width: int = 1, height: int = 1) -> bytes:
    """A PNG file whose pixels inflate to so many MB, whatever its header says. A MB takes 1 kB."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return PNG + chunk(b"IHDR", header) + chunk(b"IDAT", zeros(megabytes)) + chunk(b"IEND")


def deep_png(width: int = 5000, height: int = 4000) -> bytes:
    """A whole PNG file of 16-bit RGBA, all black."""
    rows = height * (1 + 8 * width)
    packer = zlib.compressobj(9)
    pixels = b"".join(packer.compress(bytes(min(MB, rows - start))) for start in range(0, rows, MB)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 16, 6, 0, 0, 0)
    return PNG + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND")


def jpeg(scans: int = 60_000, width: int = 4000, height: int = 4000) -> bytes:
    """A progressive JPEG file of one component with so many empty scans, each a pass over all pixels."""
    tables = b"\xff\xdb" + struct.pack(">HB", 67, 0) + b"\1" * 64
    frame = b"\xff\xc2" + struct.pack(">HBHHBBBB", 11, 8, height, width, 1, 1, 0x11, 0)
    codes = b"\xff\xc4" + struct.pack(">HB", 20, 0) + b"\1" + bytes(15) + b"\0"
    scan = b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, 1, 0, 0, 0, 0)
    return b"\xff\xd8" + tables + frame + codes + scan * scans + b"\xff\xd9"


LACES = 256
"""Frames of one block with laces (RFC 9559, section 10.3)."""
AAC, PCM = (b"A_AAC", b"\x14\x08"), (b"A_PCM/INT/LIT", b"")
"""Codecs of Matroska with their private data."""


def matroska(size: int = MB, codec: tuple[bytes, bytes] = AAC, frame: bytes = b"\0") -> bytes:
    """A Matroska file of about ``size`` bytes, whose blocks hold 256 frames without a length each."""
    block = b"\xa3" + _ebml_size(5 + LACES * len(frame)) + b"\x81\0\0\x84" + bytes([LACES - 1]) + frame * LACES
    head = _ebml(b"\x1a\x45\xdf\xa3", _ebml(b"\x42\x82", b"matroska") + _ebml(b"\x42\x87", b"\4"))
    info = _ebml(b"\x15\x49\xa9\x66", _ebml(b"\x2a\xd7\xb1", (1_000_000).to_bytes(4, "big")))
    form = _ebml(b"\xb5", struct.pack(">f", 16_000)) + _ebml(b"\x9f", b"\1") + _ebml(b"\x62\x64", b"\x10")
    track = _ebml(b"\xd7", b"\1") + _ebml(b"\x73\xc5", b"\1") + _ebml(b"\x83", b"\2")
    track += _ebml(b"\x86", codec[0]) + _ebml(b"\xe1", form) + (_ebml(b"\x63\xa2", codec[1]) if codec[1] else b"")
    segment = b"\x18\x53\x80\x67\x01" + b"\xff" * 7 + info + _ebml(b"\x16\x54\xae\x6b", _ebml(b"\xae", track))
    return head + segment + _ebml(b"\x1f\x43\xb6\x75", _ebml(b"\xe7", b"\0") + block * (size // len(block)))


def _ebml(name: bytes, body: bytes) -> bytes:
    return name + _ebml_size(len(body)) + body


def _ebml_size(size: int) -> bytes:
    return bytes([0x80 | size]) if size < 127 else (1 << 56 | size).to_bytes(8, "big")


def ogg(size: int = MB) -> bytes:
    """An Ogg file of about ``size`` bytes, whose pages hold 255 packets of Opus each: 10 ms of silence in one byte."""
    head = b"OpusHead" + struct.pack("<BBHIHB", 1, 1, 0, 48_000, 0, 0)
    tags = b"OpusTags" + struct.pack("<II", 0, 0)
    pages = [_page(0, 2, 0, bytes([len(head)]), head), _page(1, 0, 0, bytes([len(tags)]), tags)]
    pages += [_page(2 + number, 0, 480 * 255 * (number + 1), b"\1" * 255, bytes(255)) for number in range(size // 537)]
    return b"".join(pages)


def _page(number: int, flags: int, position: int, sizes: bytes, body: bytes = b"") -> bytes:
    head = struct.pack("<4sBBqII", b"OggS", 0, flags, position, 1, number)
    rest = bytes([len(sizes)]) + sizes + body
    return head + struct.pack("<I", _checksum(head + bytes(4) + rest)) + rest


@functools.cache
def _table() -> tuple[int, ...]:
    def entry(byte: int) -> int:
        value = byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
        return value

    return tuple(map(entry, range(256)))


def _checksum(data: bytes) -> int:
    table, value = _table(), 0
    for byte in data:
        value = (value << 8 & 0xFFFFFFFF) ^ table[value >> 24 ^ byte]
    return value


SOUNDS: Mapping[str, Callable[[], bytes]] = {
    "fragment": fragment,
    "compressed movie": compressed_movie,
    "matroska": matroska,
    "matroska of samples": lambda: matroska(codec=PCM, frame=b"\0\0"),
    "ogg": ogg,
}
PICTURES: Mapping[str, Callable[[], bytes]] = {"png": png, "deep png": deep_png, "jpeg": jpeg}
