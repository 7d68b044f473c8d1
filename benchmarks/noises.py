"""Sounds that are no speech, made by numpy: what a microphone in a room hears. float32, 16 kHz, five seconds each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

RATE, SECONDS = 16_000, 5


def _random() -> Any:
    import numpy

    return numpy.random.default_rng(3)


def _burst(loudness: float, decay: int, smooth: int = 1) -> Any:
    """A knock: noise that falls by 1/e every ``decay`` samples, its treble smoothed away."""
    import numpy

    samples = _random().standard_normal(6 * decay) * numpy.exp(-numpy.arange(6 * decay) / decay)
    return loudness * numpy.convolve(samples, numpy.ones(smooth) / smooth, "same")


def _placed(sound: Any, times: Any) -> Any:
    """The sound at each of these seconds."""
    import numpy

    made = numpy.zeros(SECONDS * RATE)
    for start in (int(at * RATE) for at in times):
        made[start : start + len(sound)] += sound[: len(made) - start]
    return made


def _times() -> Any:
    import numpy

    return numpy.arange(SECONDS * RATE) / RATE


def claps() -> Any:
    return _placed(_burst(0.5, 500), [0.5 + 0.45 * at for at in range(8)])


def keyboard() -> Any:
    return _placed(_burst(0.12, 120), [0.3 + 0.11 * at + 0.03 * (at % 3) for at in range(40)])


def door() -> Any:
    return _placed(_burst(2.0, 1500, 12), [1.0, 3.0])


def cough() -> Any:
    return _placed(_burst(1.0, 1200, 3), [1.0, 1.4, 3.0])


def breath() -> Any:
    import numpy

    count = int(0.6 * RATE)
    samples = numpy.convolve(_random().standard_normal(count), numpy.ones(4) / 4, "same")
    return _placed(0.08 * samples * numpy.hanning(count), [0.5, 1.7, 2.9, 4.1])


def piano() -> Any:
    import numpy

    notes, length = (262, 330, 392, 523, 392, 330, 262, 196, 220, 262), RATE // 2
    times = numpy.arange(length) / RATE
    waves = [sum(numpy.sin(2 * numpy.pi * note * part * times) / part for part in (1, 2, 3, 4)) for note in notes]
    return numpy.concatenate([0.15 * wave * numpy.exp(-3 * times) for wave in waves])


def whistle() -> Any:
    import numpy

    times = _times()
    wave = numpy.sin(2 * numpy.pi * (1500 * times + 20 * numpy.sin(2 * numpy.pi * 1.5 * times)))
    return 0.2 * wave * (numpy.sin(numpy.pi * times) > 0)


def hum() -> Any:
    import numpy

    return 0.05 * numpy.sin(2 * numpy.pi * 100 * _times()) * (_times() > 0.5)


def fan() -> Any:
    import numpy

    samples = numpy.convolve(_random().standard_normal(SECONDS * RATE), numpy.ones(8) / 8, "same")
    return 0.06 * samples * (_times() > 1)


def hiss() -> Any:
    return 0.03 * _random().standard_normal(SECONDS * RATE) * (_times() > 1)


NOISES: Mapping[str, Callable[[], Any]] = {
    one.__name__: one for one in (claps, keyboard, door, cough, breath, piano, whistle, hum, fan, hiss)
}
"""By name."""
