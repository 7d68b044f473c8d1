"""Sound that comes in: whole numbers of any known form, as engines hear sound."""

from __future__ import annotations

import array
import sys
from collections.abc import Iterator, Sequence

from edgeserve.api.wyoming.fields import SoundForm
from edgeserve.messages import INPUT_SAMPLE_RATE
from edgeserve.talk.resample import Resampler

TYPES = {2: ("h", 1 << 15), 4: ("i", 1 << 31)}
"""Type of an array and full scale by the bytes of a sample."""
PIECE = 2048
"""Samples of all channels that are worked on at once: 2 ms of work at most."""


class Incoming:
    """The sound of one utterance. Payloads may cut a sample anywhere."""

    def __init__(self, form: SoundForm) -> None:
        """Raises InvalidRequest for a form that is not understood."""
        form.check()
        self.form = form.rate, form.width, form.channels
        self._type, self._full = TYPES[form.width]
        self._frame = form.width * form.channels
        self._rest = b""
        self._resampler = Resampler(form.rate, INPUT_SAMPLE_RATE)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """float32 mono at 16 kHz, in pieces of at most 2,048 samples of the input."""
        data = self._rest + data
        whole = len(data) // self._frame * self._frame
        self._rest = data[whole:]
        step = max(1, PIECE * 2 // self._frame) * self._frame
        for start in range(0, whole, step):
            yield _floats(self._resampler.feed(self._mono(data[start : min(start + step, whole)])))

    def end(self) -> bytes:
        """The samples that wait in the filter."""
        return _floats(self._resampler.end())

    def _mono(self, data: bytes) -> list[float]:
        """The mean of all channels, from -1 to 1."""
        samples = array.array(self._type, data)
        if sys.byteorder == "big":
            samples.byteswap()
        channels = self.form[2]
        full = self._full * channels
        if channels == 1:
            return [one / full for one in samples]
        return [sum(frame) / full for frame in zip(*(samples[at::channels] for at in range(channels)), strict=True)]


def _floats(samples: Sequence[float]) -> bytes:
    floats = array.array("f", (max(-1.0, min(1.0, one)) for one in samples))
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()
