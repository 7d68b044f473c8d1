"""Spectral frames of hibari's networks to samples, a block at a time.

A frame stands for 12.5 ms. Its spectrum is the sum of three branches (hibari.dsp):

- pulses at the pitch through a filter, exp(lh + iπ tanh th);
- noise, exp(ln) Z;
- a component with its own phase, exp(lr + iφ).

The inverse short-time Fourier transform turns spectra into samples. Blocks fit into a processor's cache. Buffers fit
into the part of the heap that is used again (edgeserve/system/heap.py): page faults of larger arrays would take more
time than the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from edgeserve.engines.tts.pulses import HOP, OVERLAP, WINDOW, Pulses, hann

BINS = WINDOW // 2 + 1
BLOCK = 40
"""Frames of a block: half a second of audio. Every buffer is smaller than 256 KB."""
LOUDEST = math.exp(7.0)
"""Largest magnitude of a branch at one frequency."""
NUMBERS = 1 << 16
"""Random numbers that are drawn once and used again: half a megabyte."""


class Frames(NamedTuple):
    """Outputs of a network: float32 [F, 601] each, and the pitch in Hz, float32 [F]."""

    lh: Any
    th: Any
    ln: Any
    lr: Any
    phi: Any
    f0: Any


def samples(frames: Frames, noise: Noise, block: int = BLOCK) -> Iterator[Any]:
    """Samples at 24 kHz, float32 [n], 300 for each frame, in blocks of ``block`` frames (at least 4).

    The first block has two frames less. The same frames and the same noise always give the same samples. An array is
    valid until the next is asked for.
    """
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
        """Spectra of these frames, complex64 [stop - start, 601]. The next call uses the array again."""
        import numpy

        shape, size = (stop - start, BINS), (stop - start) * BINS
        lh, th, ln, lr, phi = (one[start:stop] for one in self._frames[:5])
        magnitude, angle, scratch = (one[:size].reshape(shape) for one in self._reals)
        spectrum, branch = (one[:size].reshape(shape) for one in self._complexes)
        # With another norm NumPy would compute in float64, on copies, and take five times as long.
        numpy.fft.rfft(pulses, axis=1, norm="forward", out=spectrum)
        numpy.multiply(numpy.tanh(th, out=angle), numpy.pi, out=angle)
        spectrum *= _polar(_exp(lh, magnitude), angle, scratch, branch)
        spectrum += _polar(_exp(lr, magnitude), phi, scratch, branch)
        noise = self._noise(stop - start)
        noise *= _exp(ln, magnitude)
        spectrum += noise
        return spectrum


class Noise:
    """Complex noise; real and imaginary parts have a normal distribution of variance 1.

    Each frame takes 601 numbers in a row, from a random place among numbers that are drawn once. Two frames of a
    hundred share some numbers, at other frequencies. Drawing new numbers for each frame would take longer.
    """

    def __init__(self, seed: int) -> None:
        import numpy

        drawn = numpy.random.Generator(numpy.random.SFC64(seed)).standard_normal(2 * NUMBERS, numpy.float32)
        self._rows = numpy.lib.stride_tricks.sliding_window_view(drawn.view(numpy.complex64), BINS)
        self._seed = seed

    def frames(self) -> Callable[[int], Any]:
        """A function that gives the noise of the next ``count`` frames, complex64 [count, 601]; the same each time."""
        import numpy

        places = numpy.random.Generator(numpy.random.SFC64(self._seed))
        return lambda count: self._rows[places.integers(len(self._rows), size=count)]


class Overlap:
    """Overlap-add: spectra back to windowed frames, each a quarter of a window after the last, which are added up."""

    def __init__(self, total: int, block: int) -> None:
        import numpy

        self._total = total
        self._squares = (hann() ** 2).reshape(OVERLAP, HOP)
        self._window = (hann() / self._squares.sum(0)[0]).astype(numpy.float32)
        self._frames: Any = numpy.empty((block, WINDOW), numpy.float32)
        self._rows = numpy.zeros((block + OVERLAP - 1, HOP), numpy.float32)

    def add(self, start: int, stop: int, spectrum: Any) -> Any:
        """The samples that these frames complete, float32 [n]; ``spectrum``: complex64 [stop - start, 601].

        The next call uses the array again. Half a window lies before the first sample, and half a window behind the
        last.
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
        """Correction of the 300 samples of a frame at either end, where windows are missing."""
        there = [quarter for quarter in range(OVERLAP) if 0 <= row + 2 - quarter < self._total]
        return self._squares.sum(0) / self._squares[there].sum(0)


def _exp(logarithm: Any, out: Any) -> Any:
    """exp with an upper bound. The bound comes second, since the first step may read columns, which is slower."""
    import numpy

    with numpy.errstate(over="ignore"):
        numpy.exp(logarithm, out=out)
    return numpy.minimum(out, LOUDEST, out=out)


def _polar(radius: Any, angle: Any, scratch: Any, out: Any) -> Any:
    """Complex numbers of this radius and angle, written to ``out``."""
    import numpy

    numpy.multiply(radius, numpy.cos(angle, out=scratch), out=out.real)
    numpy.multiply(radius, numpy.sin(angle, out=scratch), out=out.imag)
    return out
