"""Pages of Ogg (RFC 3533), with right checksums."""

from __future__ import annotations

from collections.abc import Sequence

POLYNOMIAL = 0x04C11DB7


def pages(packets: Sequence[bytes], serial: int = 1, segments: int = 255) -> bytes:
    """A stream of these packets, each on pages of its own of at most ``segments`` segments."""
    out, number = bytearray(), 0
    for packet in packets:
        sizes = bytes([255] * (len(packet) // 255) + [len(packet) % 255])
        at = 0
        for start in range(0, len(sizes), segments):
            own = sizes[start : start + segments]
            flags = (1 if start else 0) | (0 if number else 2)
            out += page(packet[at : at + sum(own)], own, flags, serial, number)
            at += sum(own)
            number += 1
    return bytes(out)


def page(body: bytes, sizes: bytes, flags: int, serial: int, number: int) -> bytes:
    time = b"\0" * 8 if sizes[-1] < 255 else b"\xff" * 8
    head = b"OggS\0" + bytes([flags]) + time + serial.to_bytes(4, "little") + number.to_bytes(4, "little")
    rest = bytes([len(sizes)]) + sizes + body
    return head + checksum(head + b"\0\0\0\0" + rest).to_bytes(4, "little") + rest


def checksum(data: bytes) -> int:
    """Bit by bit, as the standard has it (section 6)."""
    found = 0
    for byte in data:
        found ^= byte << 24
        for _ in range(8):
            found = (found << 1) ^ (POLYNOMIAL if found & 0x80000000 else 0)
        found &= 0xFFFFFFFF
    return found
