"""The native dialect: small bodies, plain answers."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from starlette.requests import Request

from edgeserve.api import cache_salt, failures, keep_alive, models, sse
from edgeserve.api.conversation import read_messages
from edgeserve.api.fields import NAME_CHARS, Fields, read_json
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.api.pictures import image
from edgeserve.api.pictures.request import Pictures
from edgeserve.api.sound import languages, transcripts, voices
from edgeserve.api.sound.recording import checked_audio, read_prompt
from edgeserve.api.sound.speech import WavBody
from edgeserve.api.uploads import read_upload
from edgeserve.errors import EdgeserveError
from edgeserve.messages import (
    ChatRequest,
    Event,
    Message,
    SpeakRequest,
    TextPart,
    TokenEvent,
    TranscribeRequest,
)

MAX_TOKENS = 1_000_000
"""What a client may ask for; the engine's own cap is lower."""

SOAP = (
    "You are a medical scribe. Write a SOAP note from the transcript of a consultation, under the headings Subjective, "
    "Objective, Assessment and Plan. Use only what the transcript says."
)
SUMMARIZE = "Summarize the text in a few short sentences. Use only what it says."
DESCRIBE = "Describe this image."
READ = "Write down all text in this image, exactly as it stands, and nothing else."


class TextBody:
    """``{"text"}`` of a chat."""

    stream = False
    media_type = "application/json"

    def __init__(self) -> None:
        self._text: list[str] = []

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, TokenEvent):
            self._text.append(event.text)
        return b""

    def end(self) -> bytes:
        return _json({"text": "".join(self._text)})

    def fail(self, error: EdgeserveError) -> bytes:
        return _json(failures.body(error))


class TokenStream(TextBody):
    """``{"token"}`` by ``{"token"}``, then ``{"done": true, "text"}``."""

    stream = True
    media_type = sse.MEDIA_TYPE

    def feed(self, index: int, event: Event) -> bytes:
        super().feed(index, event)
        return sse.event({"token": event.text}) if isinstance(event, TokenEvent) else b""

    def end(self) -> bytes:
        return sse.event({"done": True, "text": "".join(self._text)})

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.event(failures.body(error))


async def chat(request: Request) -> Call:
    fields = await read_json(request)
    return _continued(request, fields, await _chat_request(request, fields), TextBody())


async def chat_stream(request: Request) -> Call:
    fields = await read_json(request)
    return _continued(request, fields, await _chat_request(request, fields), TokenStream())


def _continued(request: Request, fields: Fields, wanted: ChatRequest, renderer: TextBody) -> Call:
    job = models.choose(request.app.state.pool, None, models.answering_chat(wanted.messages))
    wanted = dataclasses.replace(wanted, salt=cache_salt.read(request, fields))
    return Call(job, [wanted], renderer, keep_alive.read(fields))


async def _chat_request(request: Request, fields: Fields) -> ChatRequest:
    fields.only(("prompt", "system", "messages", "max_length", keep_alive.FIELD, cache_salt.FIELD))
    tokens = fields.integer("max_length", 1, MAX_TOKENS)
    if fields.has("messages"):
        for name in ("prompt", "system"):
            if fields.has(name):
                raise fields.error(name, "cannot stand beside messages")
        messages = await read_messages(fields, _limits(request), Pictures(request))
        return ChatRequest(messages, max_tokens=tokens)
    return _ask(fields.text("system"), fields.required_text("prompt"), tokens)


def _ask(system: str | None, text: str, tokens: int | None) -> ChatRequest:
    messages = [Message("system", (TextPart(system),))] if system else []
    return ChatRequest((*messages, Message("user", (TextPart(text),))), max_tokens=tokens)


async def soap(request: Request) -> Call:
    return await _instructed(request, "transcript", SOAP)


async def summarize(request: Request) -> Call:
    return await _instructed(request, "text", SUMMARIZE)


async def _instructed(request: Request, name: str, instruction: str) -> Call:
    fields = await read_json(request)
    fields.only((name, "max_length", keep_alive.FIELD, cache_salt.FIELD))
    tokens = fields.integer("max_length", 1, MAX_TOKENS)
    return _continued(request, fields, _ask(instruction, fields.required_text(name), tokens), TextBody())


async def analyze(request: Request) -> Call:
    return await _seen(request, DESCRIBE)


async def ocr(request: Request) -> Call:
    return await _seen(request, READ)


async def _seen(request: Request, default: str) -> Call:
    form = await read_upload(request, "image")
    form.fields.only(("prompt", keep_alive.FIELD, cache_salt.FIELD))
    picture = await image.checked_image(form.file, _limits(request))
    prompt = form.fields.text("prompt") or default
    wanted = ChatRequest((Message("user", (picture, TextPart(prompt))),), salt=cache_salt.read(request, form.fields))
    return Call("vision", [wanted], TextBody(), keep_alive.read(form.fields))


async def transcribe(request: Request) -> Call:
    form = await read_upload(request, "audio")
    form.fields.only(("language", "prompt", keep_alive.FIELD))
    seconds = keep_alive.read(form.fields)
    language = languages.choose(request.app.state.pool.languages(), form.fields.text("language"))
    audio = await checked_audio(form.file, _limits(request))
    wanted = TranscribeRequest(audio, language, read_prompt(form.fields))
    return Call("asr", [wanted], transcripts.Native(), seconds)


async def synthesize(request: Request) -> Call:
    fields = await read_json(request)
    fields.only(("text", "voice", "speed", keep_alive.FIELD))
    return Call("tts", [speak_request(request, fields, "text", whole=True)], WavBody(), keep_alive.read(fields))


def speak_request(request: Request, fields: Fields, name: str, *, whole: bool) -> SpeakRequest:
    """``whole``: the answer is held until it is complete."""
    limits = _limits(request)
    text = fields.required_text(name, limit=limits.max_text_chars)
    if whole and len(text) > limits.max_whole_text_chars:
        raise fields.error(
            name,
            f"has {len(text)} characters; the limit is {limits.max_whole_text_chars} for speech that is answered as a "
            "whole: ask /v1/audio/speech for a format that streams, or send less",
        )
    speed = fields.number("speed", 0.25, 4.0)
    voice = voices.choose(request.app.state.pool.voices(), fields.text("voice", limit=NAME_CHARS))
    return SpeakRequest(text, voice, 1.0 if speed is None else speed)


def _limits(request: Request) -> Limits:
    limits: Limits = request.app.state.limits
    return limits


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
