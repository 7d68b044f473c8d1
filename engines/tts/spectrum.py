"""Spectral frames to samples, as hibari's networks mean them, a block at a time.

A frame stands for 12.5 ms. Its spectrum is the sum of three branches (hibari.dsp): pulses at the pitch through a
filter, exp(lh + iπ tanh th); noise, exp(ln) Z; and what has a phase of its own, exp(lr + iφ). The inverse short-time
transform makes samples of it. Blocks are small enough for a processor's cache, and buffers for the part of the heap
that is used again (edgeserve/system/heap.py): whole arrays cost more in page faults than in arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from engines.tts.pulses import HOP, OVERLAP, WINDOW, Pulses, hann

BINS = WINDOW // 2 + 1
BLOCK = 40
"""Frames: half a second of sound, less than a millisecond of work. No buffer has 256 KB."""
LOUDEST = math.exp(7.0)
"""Of a branch at one frequency."""
NUMBERS = 1 << 16
"""Of noise that are kept: half a megabyte."""


class Frames(NamedTuple):
    """Of a network: float32 [F, 601] each, and the pitch in Hz, float32 [F]."""

    lh: Any
    th: Any
    ln: Any
    lr: Any
    phi: Any
    f0: Any


def samples(frames: Frames, noise: Noise, block: int = BLOCK) -> Iterator[Any]:
    """float32 [n] at 24 kHz, 300 for each frame, in blocks of so many frames (at least 4), less two in the first. The
    same frames with the same noise always sound the same. An array holds until the next is asked for."""
    total = len(frames.f0)
    pulses, spectra, overlap = Pulses(frames.f0, block), Spectra(frames, noise, block), Overlap(total, block)
    for start in range(0, total, block):
        stop = min(start + block, total)
        spectrum = spectra.between(start, stop, pulses.windows(start, stop))
        yield overlap.add(start, stop, spectrum)


class Spectra:
    """The three branches added up."""

    def __init__(self, frames: Frames, noise: Noise, block: int) -> None:
        import numpy

        self._frames, self._noise = frames, noise.frames()
        self._reals: list[Any] = [numpy.empty(BINS * block, numpy.float32) for _ in range(3)]
        self._complexes: list[Any] = [numpy.empty(BINS * block, numpy.complex64) for _ in range(2)]

    def between(self, start: int, stop: int, pulses: Any) -> Any:
        """complex64 [stop - start, 601] for these windows of the source; reused by the next call."""
        import numpy

        shape, size = (stop - start, BINS), (stop - start) * BINS
        lh, th, ln, lr, phi = (one[start:stop] for one in self._frames[:5])
        magnitude, angle, scratch = (one[:size].reshape(shape) for one in self._reals)
        spectrum, branch = (one[:size].reshape(shape) for one in self._complexes)
        # With another norm NumPy computes in float64, on copies: five times as long.
        numpy.fft.rfft(pulses, axis=1, norm="forward", out=spectrum)
        numpy.multiply(numpy.tanh(th, out=angle), numpy.pi, out=angle)
        spectrum *= _polar(_exp(lh, magnitude), angle, scratch, branch)
        spectrum += _polar(_exp(lr, magnitude), phi, scratch, branch)
        noise = self._noise(stop - start)
        noise *= _exp(ln, magnitude)
        spectrum += noise
        return spectrum


class Noise:
    """Complex numbers whose parts have a normal distribution of variance 1. Each frame takes its 601 in a row, from a
    place of its own: two frames of a hundred share some, at other frequencies. Drawing them all anew took an eighth of
    the time here.
    """

    def __init__(self, seed: int) -> None:
        import numpy

        drawn = numpy.random.Generator(numpy.random.SFC64(seed)).standard_normal(2 * NUMBERS, numpy.float32)
        self._rows = numpy.lib.stride_tricks.sliding_window_view(drawn.view(numpy.complex64), BINS)
        self._seed = seed

    def frames(self) -> Callable[[int], Any]:
        """For a count, complex64 [count, 601]; always the same ones in the same order."""
        import numpy

        places = numpy.random.Generator(numpy.random.SFC64(self._seed))
        return lambda count: self._rows[places.integers(len(self._rows), size=count)]


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
        """float32 [n]: what is complete with these frames, complex64 [stop - start, 601]; reused by the next call.

        The first half window lies before the first sample, and so does the last one behind the last.
        """
        import numpy

        rows, count = self._rows, stop - start
        frames = self._frames[:count]
        numpy.fft.irfft(spectrum, WINDOW, axis=1, out=frames)
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
    """Bounded afterwards rather than before, since the first step may read columns and is the slower for it."""
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
