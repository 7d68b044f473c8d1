"""G.711: eight bits a sample, on the logarithmic curves of telephones (ITU-T G.711, tables 1a and 2a)."""

from __future__ import annotations

import array
import functools

BIAS, CLIP = 0x84, 32_635
"""Two numbers of the µ-law curve: added to each magnitude, and the largest magnitude before that."""
EVEN_BITS = 0x55
"""Bits that A-law inverts."""


def expand_mu(code: int) -> int:
    """The sample of a µ-law byte."""
    code = ~code & 0xFF
    size = ((((code & 0x0F) << 3) + BIAS) << (code >> 4 & 0x07)) - BIAS
    return -size if code & 0x80 else size


def compress_mu(sample: int) -> int:
    """The µ-law byte of a sample of 16 bits."""
    size = min(abs(sample), CLIP) + BIAS
    power = size.bit_length() - 8
    sign = 0x80 if sample < 0 else 0
    return ~(sign | power << 4 | (size >> power + 3) & 0x0F) & 0xFF


def expand_a(code: int) -> int:
    """The sample of an A-law byte."""
    code ^= EVEN_BITS
    power, step = code >> 4 & 0x07, code & 0x0F
    size = (step << 4) + 8 if power == 0 else (step << 4) + 0x108 << power - 1
    return size if code & 0x80 else -size


def compress_a(sample: int) -> int:
    """The A-law byte of a sample of 16 bits."""
    sign = 0x80 if sample >= 0 else 0
    size = min(abs(sample) - (sample < 0), 32_767)
    power = max(0, size.bit_length() - 8)
    step = size >> (4 if power == 0 else power + 3) & 0x0F
    return (sign | power << 4 | step) ^ EVEN_BITS


@functools.lru_cache(maxsize=2)
def expansion(law: str) -> array.array[int]:
    """The samples of all 256 bytes. ``law``: "mu" or "a"."""
    expand = {"mu": expand_mu, "a": expand_a}[law]
    return array.array("h", map(expand, range(256)))


@functools.lru_cache(maxsize=2)
def compression(law: str) -> bytes:
    """The byte of each sample, by the sample's lowest 16 bits."""
    compress = {"mu": compress_mu, "a": compress_a}[law]
    return bytes(compress(one) for one in (*range(1 << 15), *range(-(1 << 15), 0)))
