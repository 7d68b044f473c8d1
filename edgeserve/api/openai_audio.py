"""OpenAI's audio routes: transcriptions and speech."""

from __future__ import annotations

import asyncio
import base64

from starlette.requests import Request

from edgeserve.api import failures, keep_alive, models, sse, transcripts, uploads
from edgeserve.api.fields import read_json
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call, Renderer
from edgeserve.api.native import WavBody, speak_request
from edgeserve.audio.clip import check_audio
from edgeserve.audio.wav import wav_header
from edgeserve.errors import EdgeserveError, NotSupported
from edgeserve.messages import AudioEvent, Event, TranscribeRequest

FORM = {"model", "language", "prompt", "response_format", "temperature", "timestamp_granularities", "stream"}
FORM |= {keep_alive.FIELD}
IGNORED_FORM = {"chunking_strategy", "include", "user"}
SPEECH = {"model", "input", "voice", "speed", "response_format", "stream_format", "instructions", keep_alive.FIELD}
LATER = ("mp3", "flac", "opus", "aac")


async def transcriptions(request: Request) -> Call:
    form = await uploads.read_upload(request, "file")
    fields = form.fields
    fields.only(FORM | IGNORED_FORM)
    if uploads.flag(fields, "stream"):
        raise NotSupported("streamed transcription is not supported by this version; leave stream out", param="stream")
    models.choose(request.app.state.pool, fields.text("model"), ("asr",))
    kinds = fields.texts("timestamp_granularities", 2) or ("segment",)
    if unknown := set(kinds) - {"word", "segment"}:
        raise fields.error("timestamp_granularities", f"must be word or segment, not {', '.join(sorted(unknown))}")
    name = fields.text("response_format", "json")
    if name == "verbose_json":
        renderer: transcripts.Transcript = transcripts.Verbose(kinds)
    elif name in transcripts.FORMS:
        renderer = transcripts.FORMS[name]()
    else:
        known = ", ".join([*transcripts.FORMS, "verbose_json"])
        raise fields.error("response_format", f"must be one of {known}, not {name!r}")
    seconds = keep_alive.read(fields)
    limits: Limits = request.app.state.limits
    wanted = TranscribeRequest(
        audio=await asyncio.to_thread(check_audio, form.file, limits.max_audio_seconds, "file"),
        language=fields.text("language") or None,
        prompt=fields.text("prompt"),
        temperature=uploads.number(fields, "temperature", 0.0, 1.0, 0.0),
        word_timestamps=name == "verbose_json" and "word" in kinds,
    )
    return Call("asr", [wanted], renderer, seconds)


async def speech(request: Request) -> Call:
    fields = await read_json(request)
    fields.only(SPEECH)
    models.choose(request.app.state.pool, fields.text("model"), ("tts",))
    form = fields.text("response_format", "wav")
    if form in LATER:
        raise NotSupported(
            f"response_format {form} is not supported by this version; use wav or pcm", param="response_format"
        )
    if form not in ("wav", "pcm"):
        raise fields.error("response_format", f"must be one of wav, pcm, {', '.join(LATER)}, not {form!r}")
    limits: Limits = request.app.state.limits
    wanted = speak_request(fields, "input", limits)
    stream = fields.text("stream_format")
    if stream not in (None, "audio", "sse"):
        raise fields.error("stream_format", f"must be audio or sse, not {stream!r}")
    if stream == "sse":
        renderer: Renderer = SpeechEvents(header=form == "wav")
    elif stream == "audio" or form == "pcm":
        renderer = SpeechStream(header=form == "wav")
    else:
        renderer = WavBody()
    return Call("tts", [wanted], renderer, keep_alive.read(fields))


class SpeechStream:
    """Samples as they are made, behind a WAV header of unknown length or bare (pcm: int16 little-endian mono)."""

    stream = True

    def __init__(self, *, header: bool) -> None:
        self._header = header
        self.media_type = "audio/wav" if header else "audio/pcm"

    def feed(self, index: int, event: Event) -> bytes:
        if not isinstance(event, AudioEvent):
            return b""
        head = wav_header(event.sample_rate, None) if self._header else b""
        self._header = False
        return head + event.pcm

    def end(self) -> bytes:
        return b""

    def fail(self, error: EdgeserveError) -> bytes | None:
        return None  # sound has no place for words


class SpeechEvents(SpeechStream):
    """The same in ``speech.audio.delta`` events, base64, then ``speech.audio.done``."""

    def __init__(self, *, header: bool) -> None:
        super().__init__(header=header)
        self.media_type = sse.MEDIA_TYPE

    def feed(self, index: int, event: Event) -> bytes:
        return sse.event({"type": "speech.audio.delta", "audio": base64.b64encode(super().feed(index, event)).decode()})

    def end(self) -> bytes:
        usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        return sse.event({"type": "speech.audio.done", "usage": usage})

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.event({"type": "error", **failures.body(error)})
