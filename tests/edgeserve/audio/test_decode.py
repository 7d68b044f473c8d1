"""Every accepted form of sound, and the errors of the others."""

from __future__ import annotations

import functools
import re
import struct
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy
import pytest
from support.cases import each
from support.sounds import FORMS, Form, add_picture, encoded, melody, wav_file

from edgeserve.audio import decode
from edgeserve.audio.gaps import Gaps, silence
from edgeserve.audio.mono import mono
from edgeserve.errors import InvalidRequest, TooLarge, UnsupportedMedia

SECONDS = 12.0
LIMIT = 7200.0
CHECKED = [*(FORMS[name] for name in ("flac", "ogg", "opus")), Form("ogg", "flac"), Form("matroska", "flac")]
CHECKED += [Form("mp4", "flac")]
"""With check sums over all of their sound."""
PCM = (melody(3) * 32767).astype("<i2").tobytes()


def read(data: bytes, limit: float = LIMIT) -> Any:
    decode.check(data, limit, "file")
    return numpy.frombuffer(b"".join(decode.pieces(data, limit, "file")), "<f4")


@functools.cache
def made(name: str, seconds: float = SECONDS) -> bytes:
    form = FORMS[name]
    return encoded(melody(seconds, form.rate), form, title="Gr\u00fc\u00dfe")


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_read(name: str) -> None:
    out, wanted = read(made(name)), melody(SECONDS)
    # A bare AAC stream cannot say how much its encoder put before the sound: 1,024 samples, 23 ms.
    late = 372 if name == "aac" else 0
    assert len(out) / 16_000 == pytest.approx(SECONDS, abs=0.05)
    out, wanted = out[late:], wanted[: len(out) - late]
    shared = min(len(out), len(wanted))
    assert numpy.corrcoef(out[:shared], wanted[:shared])[0, 1] > 0.95
    if FORMS[name].lossless:
        assert numpy.abs(out[:shared] - wanted[:shared])[200:-200].max() < 1e-3


@each(
    ("code", "bits", "raw"),
    [
        (1, 8, lambda x: (x * 127 + 128).astype(numpy.uint8)),
        (1, 16, lambda x: (x * 32767).astype("<i2")),
        (1, 24, lambda x: (x * (2**31 - 1)).astype("<i4").view(numpy.uint8).reshape(-1, 4)[:, 1:]),
        (1, 32, lambda x: (x * (2**31 - 1)).astype("<i4")),
        (3, 32, lambda x: x.astype("<f4")),
        (3, 64, lambda x: x.astype("<f8")),
    ],
)
@each("extensible", [False, True])
def test_every_depth_of_wav(code: int, bits: int, raw: Any, extensible: bool) -> None:
    samples = numpy.ascontiguousarray(raw(melody(1).astype(numpy.float64))).tobytes()
    out = read(wav_file(samples, code, 1, 16_000, bits, extensible=extensible))
    assert out.shape == melody(1).shape
    assert abs(out - melody(1)).max() < (0.02 if bits == 8 else 1e-4)


@each("channels", range(1, 9))
def test_as_many_channels_as_a_room_has_microphones(channels: int) -> None:
    samples = numpy.zeros((16_000, channels), "<f4")
    samples[:, -1] = melody(1)  # FFmpeg would take it for a bass channel, and leave it out
    out = read(wav_file(samples.tobytes(), 3, channels, 16_000, 32))
    assert out.shape == melody(1).shape
    assert abs(out - melody(1) / channels).max() < 1e-6


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFF000])
def test_a_stream_of_unknown_length_is_read_to_its_end(size: int) -> None:
    data = wav_file(PCM, 1, 1, 16_000, 16, size=size)
    assert len(read(data[:4] + struct.pack("<I", size) + data[8:])) == 48_000


@pytest.mark.parametrize("form", [Form("mp4", "aac"), Form("mov", "aac"), Form("matroska", "libmp3lame")])
def test_the_sound_of_a_video(form: Form) -> None:
    assert len(read(encoded(melody(3, form.rate), form, picture=True))) / 16_000 == pytest.approx(3, abs=0.05)


def test_silence_is_sound() -> None:
    assert not read(encoded(numpy.zeros(44_100, numpy.float32), FORMS["flac"])).any()


def test_words_after_the_sound_are_passed_over() -> None:
    assert len(read(made("mp3") + b"TAG" + b"words" * 25)) == SECONDS * 16_000


@each(
    "data",
    [
        b"these are words",
        b"RIFF\0\0\0\0WAVE",
        bytes(100_000),
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:9,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile '/etc/hostname'\n",
        b"v=0\nc=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 0\n",
    ],
)
def test_bytes_that_are_no_audio_are_refused(data: bytes) -> None:
    refused_as_no_audio(data)


@pytest.mark.parametrize(("name", "size"), [("m4a", 60_000), ("ogg", 100)])  # the index of m4a comes last
def test_a_beginning_without_its_index_is_no_audio(name: str, size: int) -> None:
    refused_as_no_audio(made(name)[:size])


def refused_as_no_audio(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia, match=rf"file is no audio, or broken.*{len(data)} bytes.*send WAV") as told:
        decode.check(data, LIMIT, "file")
    assert told.value.param == "file"


def test_a_video_without_sound() -> None:
    out = BytesIO()
    with av.open(out, "w", format="mp4") as file:
        add_picture(file, 3)
    silent = out.getvalue()
    with pytest.raises(UnsupportedMedia, match="file holds video only, no audio"):
        decode.check(silent, LIMIT, "file")


def test_a_codec_that_is_not_on_the_list() -> None:
    with pytest.raises(UnsupportedMedia, match="file holds tta, which cannot be read; send WAV"):
        decode.check(encoded(melody(1, 44_100), Form("matroska", "tta")), LIMIT, "file")


def test_a_file_without_samples() -> None:
    with pytest.raises(InvalidRequest, match=r"file \(flac, flac, 1 channel, 44100 Hz\) holds no samples"):
        decode.check(encoded(melody(0, 44_100), FORMS["flac"]), LIMIT, "file")


@pytest.mark.parametrize(("channels", "rate"), [(40, 16_000), (1, 100), (1, 2_000_000)])
def test_forms_out_of_range(channels: int, rate: int) -> None:
    counted = "1 channel" if channels == 1 else f"{channels} channels"
    with pytest.raises(UnsupportedMedia, match=f"file has {counted} at {rate} Hz; expected 1 to 32 at 1000 to 768000"):
        decode.check(wav_file(bytes(80_000), 1, channels, rate, 16), LIMIT, "file")


@each("name", ["wav", "wav-float", "aiff", "flac", "webm", "mkv"])
def test_a_file_that_was_cut_off(name: str) -> None:
    data = made(name)
    with pytest.raises(InvalidRequest, match=r"cut off: it says that it lasts 12\.0 s, but holds [5-6]\.\d s") as told:
        decode.check(data[: len(data) // 2], LIMIT, "file")
    assert told.value.code == "invalid_request"


@pytest.mark.parametrize("name", ["mp3", "aac", "caf", "ogg", "opus"])
def test_a_form_without_a_length_is_decoded_to_its_end(name: str) -> None:
    data = made(name)
    assert len(read(data[: len(data) // 2])) / 16_000 == pytest.approx(SECONDS / 2, abs=1.0)


def gapped(name: str, low: float, high: float) -> bytes:
    """The file in ``name``'s form without the packets from ``low`` to ``high`` s; the others keep their times."""
    form, out = FORMS[name], BytesIO()
    with av.open(BytesIO(made(name))) as whole, av.open(out, "w", format=form.container) as file:
        (stream,) = whole.streams.audio
        copy = file.add_stream_from_template(stream)
        for packet in whole.demux(stream):
            if packet.pts is not None and not low < packet.pts * packet.time_base < high:
                packet.stream = copy
                file.mux(packet)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["webm", "mkv", "m4a", "opus"])
def test_a_gap_in_a_recording_is_silence(name: str) -> None:
    data = gapped(name, 3, 8)
    heard, whole = read(data), read(made(name))
    assert len(heard) == pytest.approx(len(whole), abs=0.05 * 16_000)
    assert not heard[int(3.2 * 16_000) : int(7.8 * 16_000)].any()
    late = numpy.correlate(whole[9 * 16_000 - 480 : 10 * 16_000 + 480], heard[9 * 16_000 : 10 * 16_000])
    power = numpy.linalg.norm(whole[9 * 16_000 : 10 * 16_000]) * numpy.linalg.norm(heard[9 * 16_000 : 10 * 16_000])
    assert late.max() > 0.95 * power  # what follows comes when it was said, give or take 30 ms
    assert decode.check(data, 13, "file") == pytest.approx(12, abs=0.1)


def test_a_gap_beyond_the_limit_is_refused_before_it_is_silence() -> None:
    data = delayed("mkv", 6, 10_000_000)
    with pytest.raises(TooLarge, match="more than 7200 s"):
        decode.check(data, 7200, "file")
    with pytest.raises(TooLarge, match="more than 20 s"):
        for _ in decode.pieces(data, 20, "file"):
            pass


def delayed(name: str, at: float, seconds: float) -> bytes:
    """The file in ``name``'s form, with what follows ``at`` so much later; written as a stream, of unknown length."""
    form, out = FORMS[name], BytesIO()
    live = {"live": "1"}
    with av.open(BytesIO(made(name))) as whole, av.open(out, "w", format=form.container, options=live) as file:
        (stream,) = whole.streams.audio
        copy = file.add_stream_from_template(stream)
        for packet in whole.demux(stream):
            if packet.pts is not None and packet.dts is not None:
                if packet.pts * packet.time_base > at:
                    packet.pts += int(seconds / packet.time_base)
                    packet.dts = packet.pts
                packet.stream = copy
                file.mux(packet)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["u8", "s16", "fltp"])
def test_silence_has_the_form_of_what_is_around_it(kind: str) -> None:
    like = av.AudioFrame(kind, "stereo", 100)
    like.sample_rate = 8000
    frames = list(silence(like, 2.5))
    assert [frame.samples for frame in frames] == [8000, 8000, 4000]
    heard = b"".join(mono(frames))
    assert len(heard) == pytest.approx(4 * 2.5 * 16_000, rel=0.01)
    assert not any(heard)


def test_where_packets_are_missing_and_where_times_begin_anew() -> None:
    gaps = Gaps()
    starts = [5.0, 6.001, 7.015, 9.0, 9.99, 0.0, 3.0, None]
    assert [round(gaps.before(start, 1.0), 3) for start in starts] == [0, 0, 0, 1.0, 0, 0, 2.0, 0]
    assert gaps.end == pytest.approx(11)


def test_an_end_that_cannot_be_decoded_was_cut_off() -> None:
    data = made("alac")
    index = data.rindex(b"moov")
    with pytest.raises(InvalidRequest, match=r"file was cut off: it says that it lasts 12\.0 s, but holds [5-7]\.\d s"):
        read(data[: index // 2] + b"\xff" * (index - 4 - index // 2) + data[index - 4 :])


@pytest.mark.parametrize("name", ["mp3", "aac", "m4a", "alac"])
def test_damage_midway_is_an_error_with_its_time(name: str) -> None:
    data = made(name)
    middle = len(data) // 2
    noise = numpy.random.default_rng(1).bytes(3000)
    with pytest.raises(InvalidRequest, match=r"file is damaged at [5-7]\.\d s \(.*send it whole"):
        read(data[:middle] + noise + data[middle + 3000 :])


@pytest.mark.slow
@pytest.mark.parametrize("form", CHECKED, ids=lambda form: f"{form.codec}-in-{form.container}")
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_a_wrong_bit_is_an_error_with_a_checksum(form: Form, share: float) -> None:
    data = bytearray(encoded(melody(SECONDS, form.rate), form))
    data[int(len(data) * share)] ^= 0x10
    with pytest.raises(InvalidRequest, match=r"file is damaged at (\d+\.\d) s \(.*send it whole") as told:
        read(bytes(data))
    assert told.value.param == "file"
    found = re.search(r"at (\S+) s", str(told.value))
    assert found
    assert float(found[1]) == pytest.approx(SECONDS * share, abs=2)  # pages of Ogg last a second, and the rate varies


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flac", "ogg", "opus", "webm", "mkv"])
@pytest.mark.parametrize("put", [lambda size: numpy.random.default_rng(1).bytes(size), bytes, lambda size: b""])
def test_damage_is_an_error_before_an_engine_is_asked(name: str, put: Any) -> None:
    data = made(name)
    middle = len(data) // 2
    with pytest.raises(InvalidRequest, match=r"file is damaged at [4-7]\.\d s \(what lies there cannot be read\)"):
        decode.check(data[:middle] + put(2000) + data[middle + 2000 :], LIMIT, "file")


def test_a_page_that_holds_but_the_end_of_a_packet_is_not_taken_for_a_lost_one() -> None:
    """Packets of more than 65,025 bytes need two pages."""
    out, dice, rate = BytesIO(), numpy.random.default_rng(1), 48_000
    with av.open(out, "w", format="ogg", options={"page_duration": "1"}) as file:
        stream: Any = file.add_stream("flac", rate=rate, layout="7.1", format="s32")
        for _ in range(10):
            noise = dice.integers(-(2**31), 2**31 - 1, (1, 8 * 4096), dtype=numpy.int32)
            frame = av.AudioFrame.from_ndarray(noise, format="s32", layout="7.1")
            frame.sample_rate = rate
            file.mux(stream.encode(frame))
        file.mux([packet for packet in stream.encode(None) if packet.size])
    assert len(read(out.getvalue())) / 16_000 == pytest.approx(10 * 4096 / rate, abs=0.1)


def test_webm_files_that_were_joined_with_times_that_go_on_are_not_damaged() -> None:
    def recorded(after: float) -> bytes:
        out, form = BytesIO(), Form("webm", "vorbis", 44_100)
        source = BytesIO(encoded(melody(3, form.rate), form))
        with av.open(source) as file, av.open(out, "w", format="webm", options={"live": "1"}) as live:
            stream = live.add_stream_from_template(file.streams.audio[0])
            for packet in file.demux(file.streams.audio[0]):
                if packet.pts is not None and packet.time_base is not None:
                    packet.pts += int(after / packet.time_base)
                    packet.dts, packet.stream = packet.pts, stream
                    live.mux(packet)
        return out.getvalue()

    assert decode.check(recorded(0) + recorded(3.5), LIMIT, "file") == pytest.approx(6.5, abs=0.2)


@pytest.mark.parametrize("name", ["wav", "mp3", "webm"])
def test_a_wrong_bit_is_decoded_without_a_checksum(name: str) -> None:
    data = bytearray(made(name))
    data[len(data) // 2 + 30] ^= 1
    assert len(read(bytes(data))) / 16_000 == pytest.approx(SECONDS, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flac", "ogg", "opus", "webm", "mkv", "aac"])
def test_joined_files_are_decoded_in_order(name: str) -> None:
    data = made(name, 3)
    assert len(read(data + data)) / 16_000 == pytest.approx(6, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flac", "mp3", "aac", "ogg", "opus", "webm", "mkv"])
@pytest.mark.parametrize("tail", [lambda data: data[:-100], lambda data: data[:-100] + bytes(100)])
def test_an_end_that_is_missing_or_broken_costs_the_end_alone(name: str, tail: Any) -> None:
    assert len(read(tail(made(name)))) / 16_000 == pytest.approx(SECONDS, abs=1.1)


def test_pages_of_long_tags_are_no_damage() -> None:
    data = encoded(melody(5, 48_000), Form("ogg", "libopus", 48_000), comment="x" * 100_000)
    assert len(read(data + data)) / 16_000 == pytest.approx(10, abs=0.1)


def test_pages_of_another_stream_are_no_damage() -> None:
    out, samples = BytesIO(), melody(5, 48_000).reshape(1, -1)
    with av.open(out, "w", format="ogg") as file:
        streams = [
            file.add_stream("libopus", rate=48_000, layout="mono", options={"b": rate}) for rate in ("64k", "9k")
        ]
        for stream in streams:
            frame = av.AudioFrame.from_ndarray(samples, "fltp", "mono")
            frame.sample_rate, frame.pts = 48_000, 0
            for packet in [*stream.encode(frame), *stream.encode(None)]:
                file.mux(packet)
    assert len(read(out.getvalue())) / 16_000 == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize("name", ["wav", "flac", "m4a", "webm"])
def test_a_file_that_states_too_long_a_length(name: str) -> None:
    with pytest.raises(TooLarge, match="file lasts 12 s; the limit is 5 s"):
        decode.check(made(name), 5, "file")


@pytest.mark.parametrize("name", ["mp3", "aac", "ogg", "opus"])
def test_a_file_that_turns_out_too_long(name: str) -> None:
    for refused in (decode.check, lambda *given: list(decode.pieces(*given))):
        with pytest.raises(TooLarge, match="file lasts more than 5 s; the limit is 5 s"):
            refused(made(name), 5, "file")


LEAN = """
import sys
from edgeserve.audio import child
data = open(sys.argv[1], "rb").read()
child.decoder.check(data, 10, "file")
samples = b"".join(child.decoder.pieces(data, 10, "file"))
file = child.encoder.FORMS["mp3"].encoder(16_000)
print(len(samples), len(file.add(samples) + file.end()) > 1000, "numpy" in sys.modules)
"""


@pytest.mark.slow
def test_a_decoder_needs_no_numpy(tmp_path: Path) -> None:
    """Its import would take most of the time until the first file is read."""
    (tmp_path / "said.wav").write_bytes(encoded(melody(2, 44_100), FORMS["wav"]))
    run = [sys.executable, "-c", LEAN, str(tmp_path / "said.wav")]
    shown = subprocess.run(run, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert shown.stdout.split() == [str(4 * 2 * 16_000), "True", "False"]


HOUR = """
import re, numpy
from support.sounds import FORMS, Form, add_picture, encoded
from edgeserve.audio import decode
from edgeserve.audio.gaps import Gaps, silence
from edgeserve.audio.mono import mono

def private():
    text = open("/proc/self/smaps_rollup").read()
    return int(re.search(r"Pss_Anon: +(\\d+)", text)[1]) / 1024

rate = 8000
data = encoded(numpy.zeros(3600 * rate, numpy.float32), Form("flac", "flac", rate))
for piece in decode.pieces(encoded(numpy.zeros(rate, numpy.float32), FORMS["flac"]), 10, "file"):
    del piece
before = private()
decode.check(data, 7200, "file")
samples, most = 0, 0
for piece in decode.pieces(data, 7200, "file"):
    samples, most = samples + len(piece) // 4, max(most, private())
print(len(data), samples, most - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps_rollup")
def test_an_hour_takes_no_more_memory_than_a_minute() -> None:
    run = [sys.executable, "-c", HOUR]
    told = subprocess.run(run, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    size, samples, grown = told.stdout.split()
    assert int(size) < 1_000_000
    assert int(samples) == 3600 * 16_000  # 220 MB of float32
    assert float(grown) < 16
