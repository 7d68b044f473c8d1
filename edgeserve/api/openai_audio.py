"""OpenAI's transcriptions."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from edgeserve.api import keep_alive, models, transcripts, uploads
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.audio.clip import check_audio
from edgeserve.errors import NotSupported
from edgeserve.messages import TranscribeRequest

FORM = {"model", "language", "prompt", "response_format", "temperature", "timestamp_granularities", "stream"}
FORM |= {keep_alive.FIELD}
IGNORED_FORM = {"chunking_strategy", "include", "user"}


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
