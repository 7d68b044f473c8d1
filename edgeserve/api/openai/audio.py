"""OpenAI's transcriptions and translations."""

from __future__ import annotations

from starlette.requests import Request

from edgeserve.api import models, sse, uploads
from edgeserve.api.fields import NAME_CHARS
from edgeserve.api.line import Call
from edgeserve.api.question import Question
from edgeserve.api.schema import File, Form, listed
from edgeserve.api.sound import diarized, languages, speakers, transcripts
from edgeserve.api.sound.recording import FORMATS, TYPES, checked_audio, expect_sound, shortened
from edgeserve.api.values import Enum, Flag, Ignored, Number, Text, Texts
from edgeserve.messages import TranscribeRequest
from edgeserve.residency.pool import Pool

GRANULARITIES = ("word", "segment")
STREAMED = ("json", "text", diarized.FORM)
"""Forms that can be streamed."""
MEDIA_TYPES = (*transcripts.MEDIA_TYPES, sse.MEDIA_TYPE)


class Translation(Form, Question):
    """The form of POST /v1/audio/translations."""

    file = File(FORMATS, TYPES)
    prompt = Text("earlier text, in English")
    response_format = Enum("the form of the transcript", tuple(transcripts.FORMS), default="json")
    temperature = Number("0 rises by itself where the text is doubtful", 0, 1, default=0.0)

    def renderer(self, found: speakers.Speakers | None = None) -> transcripts.Transcript:
        """The renderer of the form; ``found`` where the transcript names its speakers."""
        if self.response_format == "verbose_json":
            return transcripts.Verbose(translated=True)
        return transcripts.FORMS[self.response_format]()


class Transcription(Translation):
    """The form of POST /v1/audio/transcriptions."""

    PART_BYTES = 3 << 20  # a reference: 10 s of WAV, 48 kHz, stereo, as base64

    language = Text(languages.WORDS, limit=NAME_CHARS)
    prompt = Text("earlier text")
    response_format = Enum("the form of the transcript", (*transcripts.FORMS, diarized.FORM), default="json")
    timestamp_granularities = Texts(
        "what verbose_json tells; several as timestamp_granularities[]; left out: segment",
        len(GRANULARITIES),
        values=GRANULARITIES,
    )
    stream = Flag(f"events, a delta for each segment; with {listed(STREAMED)}")
    task = Enum("translate: into English", ("transcribe", "translate"), default="transcribe")
    diarize = Flag("name the speaker of each segment of verbose_json; diarized_json always does")
    known_speaker_names = Texts("speakers instead of A and B", speakers.MOST_KNOWN, chars=NAME_CHARS)
    known_speaker_references = Texts(
        "for each of these names a recording of the speaker alone, 2 to 10 s, as a data URL", speakers.MOST_KNOWN
    )
    chunking_strategy = Ignored()
    include = Ignored()
    user = Ignored()
    vad_filter = Ignored("accepted; silence is always skipped")
    backend = Ignored()

    @property
    def words(self) -> bool:
        """Whether the transcript includes the times of words."""
        return self.response_format == "verbose_json" and not self.stream and "word" in self.timestamp_granularities

    @property
    def tells_speakers(self) -> bool:
        """Whether the transcript names its speakers."""
        return self.response_format == diarized.FORM or self._asks_for_speakers

    @property
    def _asks_for_speakers(self) -> bool:
        return self.diarize or bool(self.known_speaker_names or self.known_speaker_references)

    def check(self) -> None:
        """Raises InvalidRequest for fields that contradict each other."""
        if self._asks_for_speakers and self.response_format not in (diarized.FORM, "verbose_json"):
            text = f"must be {diarized.FORM} or verbose_json to name speakers, not {self.response_format!r}"
            raise self.error("response_format", text)
        if self.stream and self.response_format not in STREAMED:
            text = f"must be {listed(STREAMED)} where stream is true, not {self.response_format!r}"
            raise self.error("response_format", text)

    def renderer(self, found: speakers.Speakers | None = None) -> transcripts.Transcript:
        translated = self.task == "translate"
        granularities = self.timestamp_granularities or ("segment",)
        if found is not None and self.response_format == diarized.FORM:
            return diarized.DiarizedEvents(found) if self.stream else diarized.Diarized(found)
        if found is not None:
            return diarized.VerboseDiarized(found, (*granularities, "segment"), translated=translated)
        if self.stream:
            return transcripts.Streamed()
        if self.response_format == "verbose_json":
            return transcripts.Verbose(granularities, translated=translated)
        return transcripts.FORMS[self.response_format]()


async def transcriptions(request: Request) -> Call:
    expect_sound(request)
    asked = await uploads.read_upload(request, Transcription)
    asked.check()
    known = None
    if asked.tells_speakers:
        speakers.require(request.app.state.pool)
        known = await speakers.read_known(request, asked.known_speaker_names, asked.known_speaker_references)
    translate = asked.task == "translate"
    return await _transcribe(request, asked, asked.language, words=asked.words, translate=translate, known=known)


async def translations(request: Request) -> Call:
    expect_sound(request)
    return await _transcribe(request, await uploads.read_upload(request, Translation), translate=True)


async def _transcribe(
    request: Request,
    asked: Translation,
    code: str = "",
    *,
    words: bool = False,
    translate: bool = False,
    known: speakers.Known | None = None,
) -> Call:
    """``known``: separate the speakers, these among them. The transcription begins when all turns are known."""
    pool: Pool = request.app.state.pool
    model = models.choose(pool, asked.model, ("asr",))
    language = languages.choose(pool.languages(model), code)
    audio = await checked_audio(request, asked.file, "file")
    found = await speakers.find(request, audio, known, asked.keep_alive) if known else None
    wanted = TranscribeRequest(
        audio=audio,
        language=language,
        prompt=shortened(asked.prompt),
        temperature=asked.temperature,
        word_timestamps=words or asked.response_format == diarized.FORM,
        translate=translate,
        words_required=words,
    )
    renderer = asked.renderer(found)
    return Call(model, [wanted], renderer, asked.keep_alive, threaded=not renderer.stream)
