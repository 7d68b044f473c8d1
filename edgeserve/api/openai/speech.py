"""OpenAI's speech, streamed as it is made."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request

from edgeserve.api import models, sse
from edgeserve.api.json_body import read_json
from edgeserve.api.limits import limits_of
from edgeserve.api.line import Call
from edgeserve.api.sound.recording import sound_files
from edgeserve.api.sound.speech import WHOLE_ADVICE, SpeechEvents, SpeechStream, WavBody
from edgeserve.api.sound.voices import SpeechOptions
from edgeserve.api.values import Enum, Ignored, Text
from edgeserve.audio import encode
from edgeserve.audio.encode import FORMS
from edgeserve.residency.pool import Pool

MEDIA_TYPES = (*encode.MEDIA_TYPES, sse.MEDIA_TYPE)


class Speech(SpeechOptions):
    """The body of POST /v1/audio/speech."""

    input = Text(
        "the text to say; at most 16,384 characters where the answer is a whole wav",
        required=True,
        limit=lambda limits: limits.max_text_chars,
    )
    response_format = Enum("the format of the file", tuple(FORMS), default="mp3")
    stream_format = Enum("audio: the file as it is made; sse: events with pieces of the file", ("audio", "sse"))
    instructions = Ignored()
    lang_code = Ignored("accepted; the voice decides the language")
    backend = Ignored()

    @property
    def whole(self) -> bool:
        """Whether the answer waits for its end, so that the header of a wav has the true length."""
        return self.response_format == "wav" and not self.stream_format


async def speech(request: Request) -> Call:
    asked = await read_json(request, Speech)
    pool: Pool = request.app.state.pool
    model = models.choose(pool, asked.model, ("tts",))
    size, limit = len(asked.input), limits_of(request).max_whole_text_chars
    if asked.whole and size > limit:
        raise asked.error("input", f"has {size} characters; the limit is {limit}{WHOLE_ADVICE}")
    wanted, names = asked.say(pool.voices(model), asked.input), {"text": "input"}
    if asked.whole:
        return Call(model, [wanted], WavBody(), asked.keep_alive, names=names)
    form, files = FORMS[asked.response_format], sound_files(request)
    encoder = partial(files.encoder, asked.response_format)
    events = asked.stream_format == "sse"
    renderer = SpeechEvents(encoder, size) if events else SpeechStream(form.media_type, encoder)
    if form.computes:
        files.prepare()
    return Call(model, [wanted], renderer, asked.keep_alive, threaded=form.computes, close=renderer.close, names=names)
