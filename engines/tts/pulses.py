"""The source of voiced speech: a train of pulses at the pitch, computed block by block and cut into windows."""

from __future__ import annotations

from typing import Any

RATE = 24_000
HOP, WINDOW = 300, 1_200
OVERLAP = WINDOW // HOP
VOICED, HIGHEST = 40.0, 11_000.0
"""Frequencies in Hz: the source is silent below the first, and has no harmonics above the second."""
NEAR_ZERO = 2e-3
"""Divisors up to this size are taken as 0, and the quotient as its limit."""


class Pulses:
    """All harmonics of a pitch, with the same amplitude; silence where the pitch is below ``VOICED``.

    ``pitch``: Hz, float32 [F], one for each 300 samples. Σ cos(h x), h = 1…H, is sin((H + ½) x) / (2 sin(x/2)) - ½.
    """

    def __init__(self, pitch: Any, block: int) -> None:
        import numpy

        self._total = len(pitch)
        self._pitch = numpy.pad(pitch, 1, mode="edge")[:, None]
        between = ((numpy.arange(HOP) + 0.5) / HOP + 0.5) % 1.0
        self._later = between.astype(numpy.float32)
        self._sooner = 1 - self._later
        self._cycle = 0.0
        # Windows reach two rows before the first frame of a block, and one beyond the last.
        self._rows = numpy.empty((block + OVERLAP - 1, HOP), numpy.float32)
        self._framed = numpy.lib.stride_tricks.sliding_window_view(self._rows.reshape(-1), WINDOW)[::HOP]
        self._window = (OVERLAP * hann()).astype(numpy.float32)
        self._windowed = numpy.empty((block, WINDOW), numpy.float32)
        self._cycles, self._whole = (numpy.empty((block + 1) * HOP) for _ in range(2))
        self._scratch = [numpy.empty((block + 1) * HOP, numpy.float32) for _ in range(3)]

    def windows(self, start: int, stop: int) -> Any:
        """Windows of these frames, float32 [stop - start, 1200], scaled so that a cosine's transform peaks at 1,200.

        Calls must follow each other block by block. Each call uses the array again.
        """
        import numpy

        rows, made = self._rows, min(stop + 1, self._total)
        if start:
            rows[: OVERLAP - 1] = rows[1 - OVERLAP :]
            self._make(start + 1, made, rows[OVERLAP - 1 :])
        else:
            self._make(0, made, rows[2:])
            self._mirror(start, -2, 0)
        if stop == self._total:
            self._mirror(start, stop, stop + 1)
        count = stop - start
        return numpy.multiply(self._framed[:count], self._window, out=self._windowed[:count])

    def _mirror(self, start: int, first: int, last: int) -> None:
        """Fill rows beyond the ends with samples mirrored at the first and the last sample, repeatedly if need be."""
        import numpy

        length, origin = self._total * HOP, (start - 2) * HOP
        period = 2 * length - 2
        at = numpy.arange(first * HOP, last * HOP) % period
        flat = self._rows.reshape(-1)
        flat[first * HOP - origin : last * HOP - origin] = flat[numpy.minimum(at, period - at) - origin]

    def _make(self, start: int, stop: int, rows: Any) -> None:
        """Write the pulses of these frames to the first of ``rows``."""
        import numpy

        if start >= stop:
            return
        pulses = rows[: stop - start].reshape(-1)
        pitch, angle, divisor = (one[: len(pulses)] for one in self._scratch)
        self._interpolate(start, stop, pitch.reshape(-1, HOP), divisor.reshape(-1, HOP))
        silent = pitch <= VOICED
        numpy.maximum(pitch, VOICED, out=pitch)
        self._advance(pitch, angle)
        harmonics = numpy.floor(numpy.divide(HIGHEST, pitch, out=pitch), out=pitch)
        harmonics += 0.5
        numpy.sin(numpy.multiply(harmonics, angle, out=pulses), out=pulses)
        angle *= 0.5
        numpy.sin(angle, out=divisor)
        divisor *= 2
        near = numpy.abs(divisor, out=angle) <= NEAR_ZERO
        numpy.copyto(divisor, 1, where=near)
        pulses /= divisor
        numpy.copyto(pulses, harmonics, where=near)
        pulses -= 0.5
        numpy.copyto(pulses, 0, where=silent)

    def _interpolate(self, start: int, stop: int, pitch: Any, scratch: Any) -> None:
        """Write the pitch of each sample, interpolated linearly between the middles of frames."""
        import numpy

        halves = slice(HOP // 2), slice(HOP // 2, HOP)
        for shift, half in enumerate(halves):
            sooner, later = (self._pitch[start + shift + one : stop + shift + one] for one in (0, 1))
            numpy.multiply(sooner, self._sooner[half], out=pitch[:, half])
            numpy.multiply(later, self._later[half], out=scratch[:, half])
        pitch += scratch

    def _advance(self, pitch: Any, angle: Any) -> None:
        """Write the phase of each sample, in [0, 2π), continued from the last block and summed in float64."""
        import numpy

        cycles, whole = self._cycles[: len(pitch)], self._whole[: len(pitch)]
        numpy.cumsum(pitch, dtype=numpy.float64, out=cycles)
        cycles *= 1 / RATE
        cycles += self._cycle
        cycles -= numpy.floor(cycles, out=whole)
        self._cycle = float(cycles[-1])
        numpy.multiply(cycles, 2 * numpy.pi, out=angle, casting="same_kind")


def hann() -> Any:
    """The periodic Hann window, float64 [1200]."""
    import numpy

    return 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(WINDOW) / WINDOW)
