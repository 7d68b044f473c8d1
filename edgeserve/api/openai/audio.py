"""OpenAI's transcriptions and translations."""

from __future__ import annotations

from starlette.requests import Request

from edgeserve.api import keep_alive, models, uploads
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.api.sound import languages, transcripts
from edgeserve.api.sound.recording import checked_audio, read_prompt
from edgeserve.messages import TranscribeRequest
from edgeserve.residency.pool import Pool

FORM = {"model", "language", "prompt", "response_format", "temperature", "timestamp_granularities", "stream"}
FORM |= {keep_alive.FIELD}
TRANSLATION_FORM = FORM - {"language", "timestamp_granularities", "stream"}
IGNORED_FORM = {"chunking_strategy", "include", "user"}


async def transcriptions(request: Request) -> Call:
    return await _written_down(request, FORM | IGNORED_FORM, translate=False)


async def translations(request: Request) -> Call:
    return await _written_down(request, TRANSLATION_FORM, translate=True)


async def _written_down(request: Request, known: set[str], *, translate: bool) -> Call:
    form = await uploads.read_upload(request, "file")
    fields = form.fields
    fields.only(known)
    pool: Pool = request.app.state.pool
    models.choose(pool, fields.text("model", limit=NAME_CHARS), ("asr",))
    language = languages.choose(pool.languages(), fields.text("language"))
    renderer = _renderer(fields, translate)
    seconds = keep_alive.read(fields)
    limits: Limits = request.app.state.limits
    wanted = TranscribeRequest(
        audio=await checked_audio(form.file, limits, "file"),
        language=language,
        prompt=read_prompt(fields),
        temperature=fields.number("temperature", 0, 1) or 0.0,
        word_timestamps=isinstance(renderer, transcripts.Verbose) and "word" in renderer.granularities,
        translate=translate,
    )
    return Call("asr", [wanted], renderer, seconds)


def _renderer(fields: Fields, translate: bool) -> transcripts.Transcript:
    kinds = fields.texts("timestamp_granularities", 2) or ("segment",)
    if unknown := set(kinds) - {"word", "segment"}:
        raise fields.error("timestamp_granularities", f"must be word or segment, not {', '.join(sorted(unknown))}")
    name = fields.text("response_format", "json", limit=NAME_CHARS)
    if name not in transcripts.FORMS and name != "verbose_json":
        known = ", ".join([*transcripts.FORMS, "verbose_json"])
        raise fields.error("response_format", f"must be one of {known}, not {name!r}")
    if fields.flag("stream"):
        if name not in ("json", "text"):
            raise fields.error("response_format", f"must be json or text where stream is true, not {name!r}")
        return transcripts.Streamed()
    if name == "verbose_json":
        return transcripts.Verbose(kinds, translated=translate)
    return transcripts.FORMS[name]()
