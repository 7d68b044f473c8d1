"""Forms of sound on the wire, and their way to engines and back."""

from __future__ import annotations

import array
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from edgeserve.dataclass import dataclass
from edgeserve.messages import INPUT_SAMPLE_RATE, AudioEvent
from edgeserve.talk.companding import compression, expansion
from edgeserve.talk.recorded import SAMPLE_BYTES
from edgeserve.talk.resample import Resampler

FULL = 32_768
PIECE = 2_400
"""Samples between two turns of other tasks: some milliseconds of work."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form: its name, its rate in Hz, the bytes of a sample, and the law of G.711 where it has one."""

    name: str
    rate: int
    width: int = 2
    law: str = ""

    def seconds(self, size: int) -> float:
        """The length of so many bytes."""
        return size / self.width / self.rate

    def heard(self, size: int) -> int:
        """Bytes that so many become, as engines hear them: up to eight times as many."""
        return int(self.seconds(size) * INPUT_SAMPLE_RATE) * SAMPLE_BYTES

    def read(self, data: bytes) -> array.array[int]:
        """Whole samples as 16-bit integers."""
        if self.law:
            table = expansion(self.law)
            return array.array("h", map(table.__getitem__, data))
        samples = array.array("h", data)
        if sys.byteorder == "big":
            samples.byteswap()
        return samples

    def write(self, samples: array.array[int]) -> bytes:
        if self.law:
            table = compression(self.law)
            return bytes(table[one & 0xFFFF] for one in samples)
        if sys.byteorder == "big":
            samples = array.array("h", samples)
            samples.byteswap()
        return samples.tobytes()


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "audio/pcm": Form("audio/pcm", 24_000),
        "audio/pcmu": Form("audio/pcmu", 8_000, 1, "mu"),
        "audio/pcma": Form("audio/pcma", 8_000, 1, "a"),
    }
)
PCM = FORMS["audio/pcm"]


class Incoming:
    """Sound of one client as engines hear it. Bytes may cut a sample anywhere."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self._half = b""
        self._resampler = Resampler(form.rate, INPUT_SAMPLE_RATE)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """float32 mono at 16 kHz, in pieces of some milliseconds' work."""
        data = self._half + data
        whole = len(data) // self.form.width * self.form.width
        self._half = data[whole:]
        step = PIECE * self.form.width
        for start in range(0, whole, step):
            samples = self.form.read(data[start : min(start + step, whole)])
            yield array.array("f", self._resampler.feed([one / FULL for one in samples])).tobytes()


class Outgoing:
    """Speech of engines in a client's form. One object a stretch of speech, which ``end`` ends."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self._resampler: Resampler | None = None

    def feed(self, event: AudioEvent) -> Iterator[bytes]:
        if self._resampler is None:
            self._resampler = Resampler(event.sample_rate, self.form.rate)
        same = event.sample_rate == self.form.rate
        samples = array.array("h", event.pcm)
        for start in range(0, len(samples), PIECE):
            piece = samples[start : start + PIECE]
            yield self.form.write(piece if same else _rounded(self._resampler.feed(piece)))

    def end(self) -> bytes:
        return self.form.write(_rounded(self._resampler.end())) if self._resampler else b""


def _rounded(samples: Iterable[float]) -> array.array[int]:
    return array.array("h", (max(-FULL, min(FULL - 1, round(one))) for one in samples))
