"""OpenAI's speech: the format that is asked for, mp3 unless another is, streamed as it is made."""

from __future__ import annotations

from starlette.requests import Request

from edgeserve.api import keep_alive, models
from edgeserve.api.fields import NAME_CHARS, read_json
from edgeserve.api.line import Call, Renderer
from edgeserve.api.native import speak_request
from edgeserve.api.sound.speech import SpeechEvents, SpeechStream, WavBody
from edgeserve.audio.encode import FORMS

KNOWN = {"model", "input", "voice", "speed", "response_format", "stream_format", "instructions", keep_alive.FIELD}
DEFAULT = "mp3"


async def speech(request: Request) -> Call:
    fields = await read_json(request)
    fields.only(KNOWN)
    models.choose(request.app.state.pool, fields.text("model", limit=NAME_CHARS), ("tts",))
    name = fields.text("response_format", limit=NAME_CHARS) or DEFAULT
    if name not in FORMS:
        raise fields.error("response_format", f"must be one of {', '.join(FORMS)}, not {name!r}")
    stream = fields.text("stream_format", limit=NAME_CHARS)
    if stream not in (None, "audio", "sse"):
        raise fields.error("stream_format", f"must be audio or sse, not {stream!r}")
    whole = name == "wav" and stream is None  # so that its header tells the true length
    wanted = speak_request(request, fields, "input", whole=whole)
    if stream == "sse":
        renderer: Renderer = SpeechEvents(FORMS[name], len(wanted.text))
    elif whole:
        renderer = WavBody()
    else:
        renderer = SpeechStream(FORMS[name])
    computes = FORMS[name].computes
    return Call("tts", [wanted], renderer, keep_alive.read(fields), threaded=computes, names={"text": "input"})
