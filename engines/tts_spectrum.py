"""Spectral frames to samples, as hibari's networks mean them, a block at a time.

A frame stands for 12.5 ms. Its spectrum is the sum of three branches (hibari.dsp): pulses at the pitch through a
filter, exp(lh + iπ tanh th); noise, exp(ln) Z; and what has a phase of its own, exp(lr + iφ). The inverse short-time
transform makes samples of it. Blocks are small enough for a processor's cache, and buffers for the part of the heap
that is used again (edgeserve/memory/heap.py): whole arrays cost more in page faults than in arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from engines.tts_pulses import HOP, OVERLAP, WINDOW, Pulses, hann

BINS = WINDOW // 2 + 1
BLOCK = 40
"""Frames: half a second of sound, less than a millisecond of work. No buffer has 256 KB."""
LOUDEST = math.exp(7.0)
"""Of a branch at one frequency."""
EXPONENT_OF_1 = 0x3F80_0000
"""Of a float32: with 23 bits at random behind it, a number in [1, 2)."""


class Frames(NamedTuple):
    """Of a network: float32 [601, F] each, and the pitch in Hz, float32 [F]."""

    lh: Any
    th: Any
    ln: Any
    lr: Any
    phi: Any
    f0: Any


def samples(frames: Frames, seed: int, block: int = BLOCK) -> Iterator[Any]:
    """float32 [n] at 24 kHz, 300 for each frame, in blocks of so many frames (at least 4), less two in the first. The
    same seed gives the same noise. An array holds until the next is asked for."""
    total = len(frames.f0)
    pulses, spectra, overlap = Pulses(frames.f0, block), Spectra(frames, seed, block), Overlap(total, block)
    for start in range(0, total, block):
        stop = min(start + block, total)
        spectrum = spectra.between(start, stop, pulses.windows(start, stop))
        yield overlap.add(start, stop, spectrum)


class Spectra:
    """The three branches added up."""

    def __init__(self, frames: Frames, seed: int, block: int) -> None:
        import numpy

        self._frames = frames
        self._bits = numpy.random.SFC64(seed)
        self._reals: list[Any] = [numpy.empty(BINS * block, numpy.float32) for _ in range(3)]
        self._complexes: list[Any] = [numpy.empty(BINS * block, numpy.complex64) for _ in range(2)]

    def between(self, start: int, stop: int, pulses: Any) -> Any:
        """complex64 [601, stop - start] for these windows of the source; reused by the next call."""
        import numpy

        shape, size = (BINS, stop - start), BINS * (stop - start)
        lh, th, ln, lr, phi = (one[:, start:stop] for one in self._frames[:5])
        magnitude, angle, scratch = (one[:size].reshape(shape) for one in self._reals)
        spectrum, branch = (one[:size].reshape(shape) for one in self._complexes)
        # With another norm NumPy computes in float64, on copies: five times as long.
        numpy.fft.rfft(pulses, axis=1, norm="forward", out=spectrum.T)
        numpy.multiply(numpy.tanh(th, out=angle), numpy.pi, out=angle)
        spectrum *= _polar(_exp(lh, magnitude), angle, scratch, branch)
        spectrum += _polar(_exp(lr, magnitude), phi, scratch, branch)
        radius, angle = self._normal(shape)
        radius *= _exp(ln, magnitude)
        spectrum += _polar(radius, angle, scratch, branch)
        return spectrum

    def _normal(self, shape: tuple[int, int]) -> Any:
        """Complex numbers whose parts have a normal distribution of variance 1, as radius and angle (Box and Muller).

        Three times as fast as ``standard_normal``, since all of it is vectorised.
        """
        import numpy

        bits = self._bits.random_raw(shape[0] * shape[1]).view(numpy.uint32)
        bits >>= 9
        bits |= EXPONENT_OF_1
        radius, angle = bits.view(numpy.float32).reshape(2, *shape)
        numpy.log(numpy.subtract(2, radius, out=radius), out=radius)
        radius *= -2
        angle *= 2 * numpy.pi
        return numpy.sqrt(radius, out=radius), angle


class Overlap:
    """Spectra back to frames, in their windows added up, each a quarter of a window after the last."""

    def __init__(self, total: int, block: int) -> None:
        import numpy

        self._total = total
        self._squares = (hann() ** 2).reshape(OVERLAP, HOP)
        self._window = (hann() / self._squares.sum(0)[0]).astype(numpy.float32)
        self._frames: Any = numpy.empty((block, WINDOW), numpy.float32)
        self._rows = numpy.zeros((block + OVERLAP - 1, HOP), numpy.float32)

    def add(self, start: int, stop: int, spectrum: Any) -> Any:
        """float32 [n]: what is complete with these frames, complex64 [601, stop - start]; reused by the next call.

        The first half window lies before the first sample, and so does the last one behind the last.
        """
        import numpy

        rows, count = self._rows, stop - start
        frames = self._frames[:count]
        numpy.fft.irfft(spectrum, WINDOW, axis=0, out=frames.T)
        frames *= self._window
        rows[: OVERLAP - 1] = rows[1 - OVERLAP :]
        rows[OVERLAP - 1 :] = 0
        for quarter in range(OVERLAP):
            rows[quarter : quarter + count] += frames[:, quarter * HOP : (quarter + 1) * HOP]
        first, last = max(0, start - 2), stop if stop == self._total else stop - 2
        for row in {0, self._total - 2, self._total - 1}:
            if first <= row < last:
                rows[row - start + 2] *= self._rise(row)
        return rows[first - start + 2 : last - start + 2].reshape(-1)

    def _rise(self, row: int) -> Any:
        """For the 300 samples of a frame at either end, where windows are missing."""
        there = [quarter for quarter in range(OVERLAP) if 0 <= row + 2 - quarter < self._total]
        return self._squares.sum(0) / self._squares[there].sum(0)


def _exp(logarithm: Any, out: Any) -> Any:
    """Bounded afterwards rather than before, since the first step reads columns and is the slower for it."""
    import numpy

    with numpy.errstate(over="ignore"):
        numpy.exp(logarithm, out=out)
    return numpy.minimum(out, LOUDEST, out=out)


def _polar(radius: Any, angle: Any, scratch: Any, out: Any) -> Any:
    """complex64 from float32, in ``out``."""
    import numpy

    numpy.multiply(radius, numpy.cos(angle, out=scratch), out=out.real)
    numpy.multiply(radius, numpy.sin(angle, out=scratch), out=out.imag)
    return out
