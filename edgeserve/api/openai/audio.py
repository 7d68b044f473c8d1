"""OpenAI's transcriptions and translations."""

from __future__ import annotations

from starlette.requests import Request

from edgeserve.api import models, sse, uploads
from edgeserve.api.fields import NAME_CHARS
from edgeserve.api.line import Call
from edgeserve.api.question import Question
from edgeserve.api.schema import File, Form
from edgeserve.api.sound import languages, transcripts
from edgeserve.api.sound.recording import FORMATS, TYPES, checked_audio, expect_sound, shortened
from edgeserve.api.values import Enum, Flag, Ignored, Number, Text, Texts
from edgeserve.messages import TranscribeRequest
from edgeserve.residency.pool import Pool

GRANULARITIES = ("word", "segment")
MEDIA_TYPES = (*transcripts.MEDIA_TYPES, sse.MEDIA_TYPE)


class Translation(Form, Question):
    """The form of POST /v1/audio/translations."""

    file = File(FORMATS, TYPES)
    prompt = Text("earlier text, in English")
    response_format = Enum("the form of the transcript", tuple(transcripts.FORMS), default="json")
    temperature = Number("0 rises by itself where the text is doubtful", 0, 1, default=0.0)

    def renderer(self) -> transcripts.Transcript:
        if self.response_format == "verbose_json":
            return transcripts.Verbose(translated=True)
        return transcripts.FORMS[self.response_format]()


class Transcription(Translation):
    """The form of POST /v1/audio/transcriptions."""

    language = Text(languages.WORDS, limit=NAME_CHARS)
    prompt = Text("earlier text")
    timestamp_granularities = Texts(
        "what verbose_json tells; several as timestamp_granularities[]; left out: segment",
        len(GRANULARITIES),
        values=GRANULARITIES,
    )
    stream = Flag("events, a delta for each segment; with json and text")
    task = Enum("translate: into English", ("transcribe", "translate"), default="transcribe")
    chunking_strategy = Ignored()
    include = Ignored()
    user = Ignored()
    vad_filter = Ignored("accepted; silence is always skipped")
    backend = Ignored()

    @property
    def words(self) -> bool:
        """Whether the transcript tells the times of words."""
        return self.response_format == "verbose_json" and not self.stream and "word" in self.timestamp_granularities

    def renderer(self) -> transcripts.Transcript:
        if self.stream:
            if self.response_format not in ("json", "text"):
                text = f"must be json or text where stream is true, not {self.response_format!r}"
                raise self.error("response_format", text)
            return transcripts.Streamed()
        if self.response_format == "verbose_json":
            translated = self.task == "translate"
            return transcripts.Verbose(self.timestamp_granularities or ("segment",), translated=translated)
        return transcripts.FORMS[self.response_format]()


async def transcriptions(request: Request) -> Call:
    expect_sound(request)
    asked = await uploads.read_upload(request, Transcription)
    return await _transcribe(request, asked, asked.language, words=asked.words, translate=asked.task == "translate")


async def translations(request: Request) -> Call:
    expect_sound(request)
    return await _transcribe(request, await uploads.read_upload(request, Translation), translate=True)


async def _transcribe(
    request: Request, asked: Translation, code: str = "", *, words: bool = False, translate: bool = False
) -> Call:
    pool: Pool = request.app.state.pool
    model = models.choose(pool, asked.model, ("asr",))
    language = languages.choose(pool.languages(model), code)
    renderer = asked.renderer()
    wanted = TranscribeRequest(
        audio=await checked_audio(request, asked.file, "file"),
        language=language,
        prompt=shortened(asked.prompt),
        temperature=asked.temperature,
        word_timestamps=words,
        translate=translate,
    )
    return Call(model, [wanted], renderer, asked.keep_alive)
