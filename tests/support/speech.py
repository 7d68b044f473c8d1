"""Spoken sentences for the tests, made by the starter voice, and the measure of how well they were understood."""

from __future__ import annotations

import functools
import re
import struct
import wave
from io import BytesIO
from pathlib import Path
from typing import Any

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Ask not what your country can do for you, ask what you can do for your country.",
    "Once upon a time there was a little girl who lived in a village near the forest.",
    "Please bring me two cups of coffee and a glass of water.",
    "The train to the city leaves every morning at seven.",
)
STORY = (
    "It was a bright cold day in April, and the clocks were striking thirteen. Winston walked slowly through the glass "
    "doors of the building. He did not look back. Far away a helicopter skimmed down between the roofs, hovered for an "
    "instant, and darted away again. The hallway smelt of boiled cabbage and old rag mats. At one end of it a coloured "
    "poster had been tacked to the wall. It showed a large face, more than a metre wide. He went for the "
    "stairs, because the lift was seldom working. The flat was seven flights up, and he rested several times on the "
    "way. On each landing the poster gazed from the wall."
)


@functools.cache
def spoken(text: str) -> Any:
    """float32 samples at 16 kHz, said by hibari."""
    from hibari import Hibari

    return at_16k(Hibari(threads=2)(text, seed=0))


def said_again(folder: Path, text: str, pause_seconds: int) -> Path:
    """The sound of a microphone that hears the text over and over: half a second of silence, the text, the pause."""
    import numpy

    path = folder / "said.wav"
    path.write_bytes(wav(numpy.concatenate([numpy.zeros(8_000), spoken(text), numpy.zeros(16_000 * pause_seconds)])))
    return path


def at_16k(samples: Any, rate: int = 24_000) -> Any:
    """float32 samples at a rate of about 24 kHz, at 16."""
    import numpy

    taps = numpy.arange(-48, 49) * 2 / 3
    kernel = numpy.sinc(taps) * numpy.hanning(97) * 2 / 3
    smooth = numpy.convolve(samples, kernel, "same")
    times = numpy.arange(len(samples) * 16_000 // rate) * (rate / 16_000)
    return numpy.interp(times, numpy.arange(len(samples)), smooth).astype(numpy.float32)


def wav(samples: Any, rate: int = 16_000) -> bytes:
    """int16 mono WAV of float samples."""
    out = BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"".join(struct.pack("<h", int(max(-1.0, min(1.0, one)) * 32767)) for one in samples))
    return out.getvalue()


def word_error_rate(said: str, heard: str) -> float:
    """Edits (Levenshtein, in words, case and punctuation aside) for each word said."""
    left, right = (re.findall(r"[a-z0-9']+", text.lower()) for text in (said, heard))
    row = list(range(len(right) + 1))
    for index, word in enumerate(left, start=1):
        previous, row[0] = row[0], index
        for column, other in enumerate(right, start=1):
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, previous + (word != other))
    return row[-1] / max(1, len(left))


def decoded(file: bytes, name: str) -> tuple[Any, int]:
    """int16 samples of a file in one of OpenAI's formats, as FFmpeg reads it, and their rate."""
    import av
    import numpy

    if name == "pcm":
        return numpy.frombuffer(file, "<i2"), 24_000
    with av.open(BytesIO(file)) as opened:
        (stream,) = opened.streams.audio
        assert stream.codec_context.name.startswith({"wav": "pcm_s16le"}.get(name, name))
        mono = av.AudioResampler(format="s16", layout="mono", rate=stream.rate)
        frames = [one for frame in opened.decode(stream) for one in mono.resample(frame)]
        pieces = [frame.to_ndarray().ravel() for frame in [*frames, *mono.resample(None)]]
        return numpy.concatenate(pieces), stream.rate


def likeness(said: Any, rate: int, heard: Any, at: int) -> float:
    """The highest correlation of two sounds at their rates, over all delays."""
    import numpy

    grid = numpy.arange(0, max(len(said) / rate, len(heard) / at), 1 / 24_000)
    one, other = (
        numpy.interp(grid, numpy.arange(len(samples)) / hertz, samples, right=0.0)
        for samples, hertz in ((said, rate), (heard, at))
    )
    spectra = [numpy.fft.rfft(samples, 2 * len(grid)) for samples in (one, other)]
    products = numpy.fft.irfft(spectra[0].conj() * spectra[1])
    return float(products.max() / numpy.linalg.norm(one) / numpy.linalg.norm(other))
