"""Every format, decoded again by FFmpeg: no sample is lost, and none waits longer than necessary."""

from __future__ import annotations

import functools
import subprocess
import sys
from io import BytesIO
from typing import Any

import numpy
import pytest
from support.cases import each
from support.speech import decoded, likeness

from edgeserve.audio import encode
from edgeserve.errors import EngineFailure, NotSupported

SECONDS = 2.0


@functools.cache
def chirp(rate: int) -> bytes:
    """A tone that rises from 200 to 2,000 Hz: no stretch of it is like another."""
    times = numpy.arange(int(SECONDS * rate)) / rate
    return bytes((8000 * numpy.sin(2 * numpy.pi * (200 + 450 * times) * times)).astype("<i2").tobytes())


def encoded(name: str, pcm: bytes, rate: int, piece: int) -> list[bytes]:
    """Bytes that each piece of a size adds, and the last bytes."""
    encoder = encode.FORMS[name].encoder(rate)
    added = [encoder.add(pcm[at : at + piece]) for at in range(0, len(pcm), piece)]
    return [*added, encoder.end()]


@pytest.mark.slow
@pytest.mark.parametrize("rate", [22_050, 24_000, 48_000])
@pytest.mark.parametrize("name", encode.FORMS)
def test_spoken_text_can_be_transcribed(name: str, rate: int) -> None:
    pcm = chirp(rate)
    file = b"".join(encoded(name, pcm, rate, 7_001 * 2))
    heard, at = decoded(file, name)
    assert abs(len(heard) / at - SECONDS) < 0.1
    assert likeness(numpy.frombuffer(pcm, "<i2"), rate, heard, at) > 0.9
    if name == "pcm":
        assert at == encode.PCM_RATE
    if name in ("wav", "flac"):  # nothing is lost
        assert heard.tolist() == numpy.frombuffer(pcm, "<i2").tolist()


@pytest.mark.parametrize("name", encode.FORMS)
def test_sound_leaves_as_it_comes(name: str) -> None:
    """All but a quarter of half a second can be decoded before more samples come."""
    rate = 24_000
    first = encoded(name, chirp(rate), rate, rate)[0]
    heard, at = decoded(first, name)
    assert len(heard) / at > 0.25


@each("name", encode.FORMS)
def test_a_sound_shorter_than_a_frame_is_a_file_too(name: str) -> None:
    heard, at = decoded(b"".join(encoded(name, bytes(480), 24_000, 480)), name)
    assert 0.01 * at <= len(heard) < 0.1 * at


def test_rates_that_a_codec_does_not_know() -> None:
    assert encode._nearest(23_000, (48_000, 24_000, 16_000)) == 24_000
    assert encode._nearest(96_000, (48_000, 24_000)) == 48_000
    assert encode._nearest(96_000, None) == 96_000


def test_a_codec_that_is_not_there_and_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotSupported, match="has no encoder nonesuch") as caught:
        encode.Encoded(encode.Codec("mp3", "nonesuch"), 24_000)
    assert caught.value.param == "response_format"
    encoder: Any = encode.FORMS["mp3"].encoder(24_000)
    encoder.end()
    with pytest.raises(EngineFailure, match="libmp3lame failed while encoding"):
        encoder.add(bytes(48_000))


def test_plain_formats_load_no_ffmpeg() -> None:
    code = (
        "import sys\nfrom edgeserve.audio.encode import FORMS\n"
        "for name in ('wav', 'pcm'):\n"
        "    one = FORMS[name].encoder(24_000)\n    one.add(bytes(2)) + one.end()\n"
        "print({'av', 'numpy'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


def test_wav_has_its_header_once() -> None:
    wav = encoded("wav", bytes(8), 24_000, 4)
    assert [piece[:4] for piece in wav] == [b"RIFF", bytes(4), b""]
    assert BytesIO(b"".join(wav)).read()[44:] == bytes(8)
