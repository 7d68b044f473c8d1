"""Audio files into samples, by FFmpeg through PyAV. FFmpeg's errors become errors of the product here.

Two lists name the accepted containers and codecs. Playlists and other forms that name further files are never opened,
and a file reaches nothing but its own bytes. Memory holds the file and some seconds of samples.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from edgeserve.audio.bounds import (
    MAX_EDITS,
    MAX_FORMS,
    MAX_STREAMS,
    READ_SECONDS,
    SEND,
    Forms,
    Opening,
    Packets,
    edits,
    limit_memory,
)
from edgeserve.audio.gaps import Gaps, in_seconds, silence
from edgeserve.audio.matroska import surplus
from edgeserve.audio.mono import form_of, mono
from edgeserve.audio.passed import Passed
from edgeserve.audio.tags import MAX_TAGS, tags
from edgeserve.errors import InvalidRequest, TooLarge, UnsupportedMedia
from edgeserve.sound import INPUT_SAMPLE_RATE

if TYPE_CHECKING:
    from av import AudioFrame, AudioStream, Packet
    from av.container import InputContainer

RAISE = "send it in parts, or raise max_audio_seconds in models.toml"
CONTAINERS = ("wav", "w64", "aiff", "au", "caf", "mp3", "aac", "amr", "flac", "ogg", "mov", "matroska")
"""Containers by FFmpeg's names; mov includes MP4 and M4A, matroska includes WebM."""
CODECS = {"aac", "aac_latm", "ac3", "alac", "amrnb", "amrwb", "adpcm_ima_wav", "adpcm_ms", "eac3", "flac", "gsm_ms"}
CODECS |= {"mp1", "mp1float", "mp2", "mp2float", "mp3", "mp3float", "opus", "libopus", "vorbis", "libvorbis"}
"""All forms of PCM are accepted, too."""
CHANNELS, RATES = range(1, 33), range(1000, 768_001)
MAX_PACKET_SECONDS = 600.0
"""Longest packet; the decoder ignores a longer length that a packet states."""
DECLARING = {"wav", "w64", "aiff", "caf", "flac", "mov", "matroska"}
"""Containers that state their length. FFmpeg guesses the length of others from the bit rate or the bytes."""
TIMED = {"ogg", "mov", "matroska"}
"""Containers that state the time of each packet."""
PLACEHOLDER = 2**31 - 2**16
"""Smallest length in a RIFF header that means "unknown"; no body is as large."""
SLACK_SECONDS = 1.0
"""Tolerance for a file that is shorter than stated: encoders count delay and padding differently."""


def check(data: bytes, max_seconds: float, param: str) -> float:
    """Read all packets and decode the first; returns seconds of sound, 0 when unknown.

    Raises UnsupportedMedia (no sound, or an unknown form), TooLarge, and InvalidRequest (cut off, or without samples).
    """
    with _opened(data, param, READ_SECONDS) as (container, stream):
        declared = _declared(data, container, stream)
        if declared is not None and declared > max_seconds:
            raise _too_long(declared, max_seconds, param)
        seconds, reached, heard, gaps, packets = 0.0, 0.0, False, Gaps(), Packets()
        timed = _is_timed(container)
        for packet in _packets(data, container, stream, param):
            if packets.too_many(gaps.end):
                raise _too_many(packets.count, gaps.end, param)
            heard = heard or _sounds(packet)
            length, time = _length(packet), _time(packet) if timed else None
            seconds += length
            gaps.before(time, length)
            reached = max(reached, gaps.end, time or 0.0)
            if gaps.end > max_seconds:
                raise _too_long(None, max_seconds, param)
        if not heard:
            text = f"{param} ({_described(container, stream)}) holds no samples that can be decoded"
            raise InvalidRequest(f"{text}; {SEND}", param=param)
        if seconds:  # 0: the packets state no length
            _not_cut(reached, declared, param)
        return reached if seconds else 0.0


def pieces(data: bytes, max_seconds: float, param: str) -> Iterator[bytes]:
    """float32 little-endian mono at 16 kHz, in pieces of PIECE_SECONDS. Raises the errors of ``check``."""
    import av

    count = 0
    with _opened(data, param) as (container, stream):
        declared = _declared(data, container, stream)
        try:
            for piece in mono(_frames(data, container, stream, declared, param)):
                count += len(piece) // 4
                if count > (max_seconds + SLACK_SECONDS) * INPUT_SAMPLE_RATE:
                    raise _too_long(None, max_seconds, param)
                yield piece
        except av.error.FFmpegError as error:
            text = f"{param} ({_described(container, stream)}) cannot be brought to 16 kHz: {error.strerror}"
            raise UnsupportedMedia(f"{text}; {SEND}", param=param) from error


@contextlib.contextmanager
def _opened(data: bytes, param: str, seconds: float | None = None) -> Iterator[tuple[InputContainer, AudioStream]]:
    """The container and its best stream of sound. The codec is one of the list.

    ``seconds``: computing time after which reading ends with UnsupportedMedia.
    """
    import av

    limit_memory()
    _check_beside(data, param)
    options = {"format_whitelist": ",".join(CONTAINERS), "codec_whitelist": ",".join(CODECS), "protocol_whitelist": ""}
    options |= {"max_streams": str(MAX_STREAMS)}
    file = Opening(data)
    try:
        # Tags may be in any encoding, and are not used.
        container = av.open(file, "r", options=options, metadata_errors="replace")
        file.opened(seconds)
    except av.error.FFmpegError as error:
        if file.slow:
            raise _slow(param) from error
        raise _unreadable(data, param) from error
    with container:
        if file.slow:
            raise _slow(param)
        stream = container.streams.best("audio")
        if not isinstance(stream, av.AudioStream):
            if container.streams.audio or not len(container.streams):
                raise _unreadable(data, param)
            kinds = " and ".join(sorted({one.type for one in container.streams}))
            raise UnsupportedMedia(f"{param} holds {kinds} only, no audio ({container.format.name})", param=param)
        codec = stream.codec_context.name if stream.codec_context else "an unknown codec"
        if codec not in CODECS and not codec.startswith("pcm_"):
            raise UnsupportedMedia(f"{param} holds {codec}, which cannot be read; {SEND}", param=param)
        _check_form(stream.channels, stream.rate, param)
        if codec == "flac":  # FLAC has checksums, which FFmpeg checks only when asked
            stream.codec_context.options = {"err_detect": "crccheck+explode"}
        try:
            yield container, stream
        finally:
            if file.slow:  # what was read is not all of the file, whatever was found in it
                raise UnsupportedMedia(f"{param} takes too long to read; {SEND}", param=param)


def _check_beside(data: bytes, param: str) -> None:
    """Check what the file holds beside its sound. Raises UnsupportedMedia."""
    if (count := edits(data)) > MAX_EDITS:
        raise UnsupportedMedia(f"{param} is cut in {count} places; the limit is {MAX_EDITS}: {SEND}", param=param)
    if tags(data) > MAX_TAGS:
        text = f"{param} has more than {MAX_TAGS} tags, or is damaged in many places"
        raise UnsupportedMedia(f"{text}; send it whole, and without tags", param=param)
    if much := surplus(data):
        raise UnsupportedMedia(f"{param} has {much}; send it without", param=param)


def _packets(data: bytes, container: InputContainer, stream: AudioStream, param: str) -> Iterator[Packet[AudioStream]]:
    """Packets in order. Raises InvalidRequest when bytes between two packets are unreadable."""
    import av

    passed = Passed(container.format.name, data, stream.index)
    try:
        for packet in container.demux():  # packets of all streams: their bytes count as read
            if passed.before(packet):
                raise _damaged(passed.end, "what lies there cannot be read", param)
            if packet.stream.index == stream.index:
                yield cast("Packet[AudioStream]", packet)
    except av.error.FFmpegError as error:
        raise InvalidRequest(f"{param} is damaged ({error.strerror}); send it whole", param=param) from error


def _length(packet: Packet[AudioStream]) -> float:
    """Length in seconds; 0 when the packet states none, or FFmpeg overflows at the early end of a short Ogg file."""
    base = packet.time_base
    seconds = in_seconds(packet.duration or 0, base) if base else 0.0
    return seconds if 0 <= seconds < MAX_PACKET_SECONDS else 0.0


def _sounds(packet: Packet[AudioStream]) -> bool:
    """Whether the packet decodes to samples. The first packet of a stream cut from a longer one may not."""
    import av

    try:
        return any(frame.samples for frame in packet.decode())
    except av.error.FFmpegError:
        return False


def _frames(
    data: bytes, container: InputContainer, stream: AudioStream, declared: float | None, param: str
) -> Iterator[AudioFrame]:
    """Frames in order, with silence for missing ones.

    The decoder ignores damage before the first sound. It ignores damage after the last sound if the length is right
    without it (tags may follow the sound). Damage in between raises InvalidRequest.
    """
    import av

    gaps, packets, forms, reached, damage, timed = Gaps(), Packets(), Forms(), 0.0, "", _is_timed(container)
    for packet in _packets(data, container, stream, param):
        if packets.too_many(gaps.end):
            raise _too_many(packets.count, gaps.end, param)
        try:
            frames = packet.decode()
        except av.error.FFmpegError as error:
            damage = damage or str(error.strerror)
            continue
        for frame in frames:
            if damage and gaps.end:
                raise _damaged(gaps.end, damage, param)
            damage = ""
            _check_form(frame.layout.nb_channels, frame.sample_rate, param)
            if forms.too_many(form_of(frame)):
                raise UnsupportedMedia(f"{param} changes its form more than {MAX_FORMS} times; {SEND}", param=param)
            time = _time(frame) if timed else None
            yield from silence(frame, gaps.before(time, frame.samples / frame.sample_rate))
            reached = max(reached, gaps.end, time or 0.0)
            yield frame
    _not_cut(reached, declared, param)


def _is_timed(container: InputContainer) -> bool:
    """Whether the container states times. Where it states none, FFmpeg counts earlier packets instead."""
    return not TIMED.isdisjoint(container.format.name.split(","))


def _time(what: Packet[AudioStream] | AudioFrame) -> float | None:
    """Start time in seconds; None when it is not stated."""
    base = what.time_base
    return None if what.pts is None or base is None else in_seconds(what.pts, base)


def _check_form(channels: int, rate: int, param: str) -> None:
    """Raises UnsupportedMedia for too many channels or an unsupported rate, before anything is allocated by them."""
    if channels not in CHANNELS or rate not in RATES:
        found = f"{param} has {_counted(channels)} at {rate} Hz"
        raise UnsupportedMedia(f"{found}; expected 1 to {CHANNELS[-1]} at {RATES[0]} to {RATES[-1]}", param=param)


def _declared(data: bytes, container: InputContainer, stream: AudioStream) -> float | None:
    """Seconds of sound that the file states; None when it states none."""
    if DECLARING.isdisjoint(container.format.name.split(",")):
        return None
    if stream.duration is not None and stream.time_base is not None:
        seconds = float(stream.duration * stream.time_base)
    elif (
        container.duration is not None and len(container.streams) == 1
    ):  # with several streams the length may be another's
        seconds = container.duration / 1e6
    else:
        return None
    if container.format.name == "wav" and stream.bit_rate:
        # FFmpeg takes the length from the present bytes, or from a header that may hold a placeholder.
        riff = int.from_bytes(data[4:8], "little")
        missing = riff + 8 - len(data) if riff < PLACEHOLDER else 0
        return min(seconds, len(data) * 8 / stream.bit_rate) + max(missing, 0) * 8 / stream.bit_rate
    return seconds


def _not_cut(seconds: float, declared: float | None, param: str) -> None:
    if declared is not None and seconds < declared - SLACK_SECONDS:
        text = f"{param} was cut off: it says that it lasts {declared:.1f} s, but holds {seconds:.1f} s"
        raise InvalidRequest(f"{text}; send it whole", param=param)


def _damaged(seconds: float, why: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{param} is damaged at {seconds:.1f} s ({why}); send it whole", param=param)


def _too_long(declared: float | None, limit: float, param: str) -> TooLarge:
    found = f"more than {limit:.0f} s" if declared is None else f"{declared:.0f} s"
    return TooLarge(f"{param} lasts {found}; the limit is {limit:.0f} s: {RAISE}", param=param)


def _too_many(packets: int, seconds: float, param: str) -> UnsupportedMedia:
    text = f"{param} is cut into too many packets: {packets} for {seconds:.1f} s of sound"
    return UnsupportedMedia(f"{text}; encode it anew, and {SEND}", param=param)


def _unreadable(data: bytes, param: str) -> UnsupportedMedia:
    text = f"{param} is no audio, or broken or cut off: {len(data)} bytes that begin with {data[:8]!r}"
    return UnsupportedMedia(f"{text}; {SEND}", param=param)


def _slow(param: str) -> UnsupportedMedia:
    return UnsupportedMedia(f"{param} takes too long to open; send it without tags", param=param)


def _described(container: InputContainer, stream: AudioStream) -> str:
    form = f"{container.format.name}, {stream.codec_context.name}"
    return f"{form}, {_counted(stream.channels)}, {stream.rate} Hz"


def _counted(channels: int) -> str:
    return "1 channel" if channels == 1 else f"{channels} channels"
