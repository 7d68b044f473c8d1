"""Turns that noise opens, and turns of speech beside noise: by the detector, and by loudness.

    python -m benchmarks.noise

The sounds go through the buffer of a conversation in pieces of 40 ms, as from a microphone. Silero judges each piece at
once here; in the server a verdict takes some milliseconds. Speech is said by the starter voice.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.noises import NOISES, RATE, fan

from edgeserve.api.realtime.buffer import Buffer
from edgeserve.engines.asr.vad import Vad
from edgeserve.models.folder import default_root
from edgeserve.models.store import Store
from edgeserve.talk.forms import PCM
from edgeserve.talk.turns import Mark, Rules

PIECE = 4 * RATE // 25
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Please bring me two cups of coffee and a glass of water.",
    "The train to the city leaves every morning at seven.",
    "What is the capital of France?",
    "Once upon a time there was a little girl who lived in a village near the forest.",
)
RATIOS = (None, 20, 10, 5)
"""Speech above noise in dB; None: no noise."""
LOUD = 0.02
BEFORE = 3
"""Seconds of noise before the speech, and behind it."""


@dataclass(frozen=True, slots=True)
class Found:
    """Turns of the sentences: how many had exactly one, and seconds by which its two ends were noticed late."""

    whole: int
    start: float
    stop: float


def marks(sound: Any, vad: Vad | None, rules: Rules | None = None) -> list[Mark]:
    """News of turns. ``sound``: float32 [n] at 16 kHz. Without ``vad``, loudness decides."""
    buffer = Buffer(PCM, rules or Rules(), detects=vad is not None)
    data, found = sound.astype("<f4").tobytes(), []
    for at in range(0, len(data), PIECE):
        found += buffer.feed(data[at : at + PIECE])
        if vad is not None and (question := buffer.question()) is not None:
            found += buffer.answer(question, vad.detect(question))
    return found


def turns(sound: Any, vad: Vad | None) -> int:
    return sum(mark.kind == "started" for mark in marks(sound, vad))


def beside(speech: Any, ratio: int | None) -> Any:
    """Speech in a room with a fan. Each has the silence of ``BEFORE`` around it."""
    import numpy

    made = numpy.pad(speech, BEFORE * RATE)
    if ratio is not None:
        noise = numpy.tile(fan()[RATE * 2 :], 9)[: len(made)]
        made = made + noise * (_power(speech) / _power(noise)) ** 0.5 * 10 ** (-ratio / 20)
    return made


def _power(sound: Any) -> float:
    return float((sound**2).mean())


def found(speeches: Sequence[Any], ratio: int | None, vad: Vad | None) -> Found:
    """Rules without a prefix, so that the start of a turn is that of its speech."""
    import numpy

    whole, starts, stops = 0, [], []
    for speech in speeches:
        loud = numpy.flatnonzero(abs(speech) > LOUD) / RATE + BEFORE
        news = marks(beside(speech, ratio), vad, Rules(prefix=0.0))
        began = [mark.at for mark in news if mark.kind == "started"]
        ended = [mark.at for mark in news if mark.kind == "stopped"]
        if len(began) == len(ended) == 1 and abs(began[0] - loud[0]) < 0.5 and abs(ended[0] - loud[-1] - 0.5) < 0.5:
            whole += 1
            starts.append(began[0] - loud[0])
            stops.append(ended[0] - loud[-1])
    return Found(whole, _median(starts), _median(stops))


def _median(values: Iterable[float]) -> float:
    known = list(values)
    return statistics.median(known) if known else float("nan")


def spoken(text: str) -> Any:
    """float32 at 16 kHz."""
    import numpy
    from hibari import Hibari

    samples = Hibari(threads=2)(text, seed=0)
    times = numpy.arange(len(samples) * RATE // 24_000) * (24_000 / RATE)
    return numpy.interp(times, numpy.arange(len(samples)), samples).astype(numpy.float32)


def main() -> int:
    path = next(iter(Store(default_root(os.environ)).pull("silero-vad").files.values()))
    vad = Vad(Path(path))
    noises = [[name, str(turns(make(), None)), str(turns(make(), vad))] for name, make in NOISES.items()]
    speeches = [spoken(text) for text in SENTENCES]
    voices = []
    for ratio in RATIOS:
        cells = ["quiet" if ratio is None else f"{ratio} dB"]
        for one in (None, vad):
            of_all = found(speeches, ratio, one)
            times = [f"{of_all.start:.2f}", f"{of_all.stop:.2f}"] if of_all.whole else ["", ""]
            cells += [f"{of_all.whole} of {len(speeches)}", *times]
        voices.append(cells)
    first = report.table(["five seconds of", "turns by loudness", "turns by Silero"], noises)
    header = ["speech above a fan", "by loudness: whole turns", "start late by s", "stop after s"]
    second = report.table([*header, "by Silero: whole turns", "start late by s", "stop after s"], voices)
    text = (
        "Sounds that are no speech, through the buffer of a conversation with the settings of a new session. Each turn "
        f"is one too many.\n\n{first}\n\n{len(speeches)} sentences of the starter voice, with {BEFORE} s of the room "
        "before and behind. A turn is whole where it is the only one, and begins and ends within half a second of "
        "where it should. The starts and stops are medians of whole turns. A turn stops after 0.5 s of silence, "
        f"which are part of the figure.\n\n{second}"
    )
    print(report.write("noise", "Noise and turns", text))
    print(first, second, sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
