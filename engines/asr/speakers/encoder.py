"""The open speaker encoder: stretches of speech become voices, float32 vectors of length 1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeserve.engines.asr.segments import Rules, frames
from edgeserve.engines.asr.speakers.clusters import unit
from edgeserve.engines.asr.speakers.features import mel_power
from edgeserve.engines.asr.speakers.turns import Heard, windows
from edgeserve.engines.asr.stretches import START, Place
from edgeserve.engines.asr.vad import Vad
from edgeserve.engines.asr.whisper.features import HOP
from edgeserve.engines.onnx import session

SPEECH = Rules(silence=frames(0.3), pad=frames(0.1), longest=frames(15.0))
"""Speakers change at pauses, so already short ones part stretches."""
BATCH = 12
"""Windows in one run: the gates of a window take 0.7 MB."""


class SpeakerEncoder:
    """``detector``: finds the speech. Raises EngineFailure."""

    def __init__(self, graph: Path, detector: Path, threads: int | None) -> None:
        self._graph = session.session(graph, threads=threads)
        self._detector = Vad(detector)

    def hear(self, arrays: Iterable[Any], place: Place = START) -> Iterator[Place | Heard | None]:
        """The windows of each stretch of speech that is long enough, in order. Holds one stretch at a time.

        The place of each stretch comes first. None for a shorter one, and in a long silence: other requests may have
        their turn.
        """
        import numpy

        for stretch in self._detector.stretches(arrays, SPEECH, place):
            if stretch is None:
                yield None
                continue
            yield stretch.place
            mel = mel_power(stretch.samples)[: len(stretch.samples) // HOP]
            if spans := windows(len(mel)):
                voices = [self._voices(mel, spans[at : at + BATCH]) for at in range(0, len(spans), BATCH)]
                yield Heard(stretch.start // HOP, len(mel), numpy.concatenate(voices))
            else:
                yield None

    def _voices(self, mel: Any, spans: Sequence[tuple[int, int]]) -> Any:
        """The voices of windows of one length: float32 [windows, 256]."""
        import numpy

        rows = numpy.stack([mel[low:high] for low, high in spans])
        (voices,) = session.run(self._graph, ["embedding"], {"mel": rows})
        return unit(numpy.nan_to_num(voices))
