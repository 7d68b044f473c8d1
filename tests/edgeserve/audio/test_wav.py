"""WAV files, read by the standard library."""

from __future__ import annotations

import io
import wave

from edgeserve.audio import wav


def test_a_whole_file() -> None:
    samples = bytes(range(200))
    with wave.open(io.BytesIO(wav.wav([samples[:50], samples[50:]], 24_000))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.readframes(1000) == samples


def test_a_stream_has_a_header_of_unknown_length() -> None:
    head = wav.wav_header(8000, None)
    assert (head[4:8], head[-4:]) == (b"\xff" * 4, b"\xff" * 4)
