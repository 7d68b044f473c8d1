"""Native transcription and speech."""

from __future__ import annotations

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.fields import NAME_CHARS
from edgeserve.api.json_body import read_json
from edgeserve.api.line import Call
from edgeserve.api.question import Question
from edgeserve.api.schema import File, Form
from edgeserve.api.sound import languages, transcripts
from edgeserve.api.sound.recording import FORMATS, TYPES, checked_audio, expect_sound, shortened
from edgeserve.api.sound.speech import WHOLE_ADVICE, WavBody
from edgeserve.api.sound.voices import SpeechOptions
from edgeserve.api.uploads import read_upload
from edgeserve.api.values import Text
from edgeserve.messages import TranscribeRequest
from edgeserve.residency.pool import Pool


class Recording(Form, Question):
    """The form of POST /v1/transcribe/file."""

    audio = File(FORMATS, TYPES)
    language = Text(languages.WORDS, limit=NAME_CHARS)
    prompt = Text("earlier text")


class Speak(SpeechOptions):
    """The body of POST /v1/tts/synthesize."""

    text = Text(
        "the text to say",
        required=True,
        limit=lambda limits: min(limits.max_text_chars, limits.max_whole_text_chars),
        advice=WHOLE_ADVICE,
    )


async def transcribe(request: Request) -> Call:
    expect_sound(request)
    asked = await read_upload(request, Recording)
    pool: Pool = request.app.state.pool
    model = models.choose(pool, asked.model, ("asr",))
    language = languages.choose(pool.languages(model), asked.language)
    audio = await checked_audio(request, asked.audio)
    wanted = TranscribeRequest(audio, language, shortened(asked.prompt))
    return Call(model, [wanted], transcripts.Native(), asked.keep_alive, threaded=True)


async def synthesize(request: Request) -> Call:
    asked = await read_json(request, Speak)
    pool: Pool = request.app.state.pool
    model = models.choose(pool, asked.model, ("tts",))
    return Call(model, [asked.say(pool.voices(model), asked.text)], WavBody(), asked.keep_alive)
