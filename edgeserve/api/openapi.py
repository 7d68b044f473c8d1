"""The OpenAPI document of the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import edgeserve
from edgeserve.api import cache_salt, keep_alive
from edgeserve.audio import encode

MULTIPART = "multipart/form-data"
MEDIA = {"Samples": "application/octet-stream"}


def text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def number(description: str, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    bounds = {"minimum": low, "maximum": high}
    return {"type": "number", "description": description} | {key: one for key, one in bounds.items() if one is not None}


def whole(description: str, low: int = 1) -> dict[str, Any]:
    return {"type": "integer", "description": description, "minimum": low}


def file(description: str) -> dict[str, Any]:
    return {"type": "string", "format": "binary", "description": description}


def schema(required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties} | ({"required": required.split()} if required else {})


def question(required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """What an engine answers."""
    return schema(required, **properties, **{keep_alive.FIELD: keep_alive.SCHEMA})


def continued(required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """What a language model continues."""
    return question(required, **properties, **{cache_salt.FIELD: cache_salt.SCHEMA})


CONVERSATION = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["role"],
        "properties": {
            "role": {"type": "string", "enum": ["system", "developer", "user", "assistant", "tool"]},
            "tool_calls": {"type": "array", "items": {"type": "object"}},
            "tool_call_id": text("of a tool's message: the call that it answers"),
            "content": {
                "description": "text, or parts of type text and image_url (data: URLs, attachment:NAME, addresses)",
                "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}],
            },
        },
    },
}
SAMPLING = {
    "model": text("a configured model or engine name; left out: the default"),
    "stream": {"type": "boolean"},
    "stream_options": {"type": "object", "properties": {"include_usage": {"type": "boolean"}}},
    "n": whole("answers to make"),
    "seed": {"type": "integer"},
    "stop": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 4}]},
    "temperature": number("0 is greedy", 0, 2),
    "top_p": number("nucleus", 0, 1),
    "top_k": whole("tokens considered; extension", 0),
    "min_p": number("extension", 0, 1),
    "repeat_penalty": number("extension", 0.01, 10),
    "presence_penalty": number("", -2, 2),
    "frequency_penalty": number("", -2, 2),
    "logit_bias": {"type": "object", "additionalProperties": {"type": "number"}},
    "max_tokens": whole("tokens of one answer at most"),
}
TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
PROMPTS = {
    "description": "a text, several, its tokens, or several lists of tokens",
    "oneOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
        TOKENS | {"minItems": 1},
        {"type": "array", "items": TOKENS | {"minItems": 1}, "minItems": 1},
    ],
}
JSON_FORM = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": ["text", "json_object", "json_schema"]},
        "schema": {"type": "object", "description": "beside json_object: holds the answer to it"},
        "json_schema": schema("name schema", name=text("of the schema"), schema={"type": "object"}),
    },
}
TOOLS = {
    "type": "array",
    "items": schema(
        "type function",
        type={"type": "string", "enum": ["function"]},
        function=schema(
            "name", name=text("to call it by"), description=text("what it does"), parameters={"type": "object"}
        ),
    ),
}
CHOICE = {"oneOf": [{"type": "string", "enum": ["none", "auto", "required"]}, {"type": "object"}]}
SOUND = "WAV, MP3, M4A, FLAC, Ogg, Opus, WebM, AIFF, CAF, AMR, or a video that holds sound"
TRANSCRIPT_FORMS = {"type": "string", "enum": ["json", "text", "srt", "vtt", "verbose_json"]}
RISING = number("0 rises by itself where the text is doubtful", 0, 1)

SCHEMAS: dict[str, dict[str, Any]] = {
    "Chat": continued(
        "",
        prompt=text("what the user says"),
        system=text("how to answer"),
        messages=CONVERSATION,
        max_length=whole("tokens at most"),
    ),
    "Soap": continued("transcript", transcript=text("of the consultation"), max_length=whole("tokens at most")),
    "Summarize": continued("text", text=text("to be summarized"), max_length=whole("tokens at most")),
    "Image": continued("image", image=file("PNG, JPEG, GIF or BMP"), prompt=text("what to do with it")),
    "Recording": question("audio", audio=file(SOUND), language=text("ISO 639-1"), prompt=text("earlier text")),
    "Live": question("", language=text("ISO 639-1"), prompt=text("earlier text")),
    "Samples": {
        "type": "string",
        "format": "binary",
        "description": "float32 little-endian, 16 kHz, mono; 10 s",
    },
    "Speak": question("text", text=text("to be said"), voice=text("see /v1/tts/voices"), speed=number("", 0.25, 4)),
    "ChatCompletion": continued(
        "messages",
        messages=CONVERSATION,
        max_completion_tokens=whole("tokens of one answer at most"),
        response_format=JSON_FORM,
        logprobs={"type": "boolean"},
        top_logprobs=whole("alternatives told with each token, at most 20; needs logprobs", 0),
        tools=TOOLS,
        tool_choice=CHOICE,
        parallel_tool_calls={"type": "boolean", "default": True},
        **SAMPLING,
    ),
    "Completion": continued(
        "prompt",
        prompt=PROMPTS,
        echo={"type": "boolean", "description": "repeat the prompt, which must be text; without logprobs"},
        logprobs=whole("alternatives told with each token, at most 5", 0),
        best_of=whole("accepted where it equals n"),
        **SAMPLING,
    ),
    "Embedding": question(
        "input",
        input=PROMPTS,
        model=text("a configured model or engine name; left out: the default"),
        encoding_format={"type": "string", "enum": ["float", "base64"], "default": "float"},
        dimensions=whole("keep the first so many, at length 1 again"),
    ),
    "Transcription": question(
        "file",
        file=file(SOUND),
        model=text("left out: the default"),
        language=text("ISO 639-1"),
        prompt=text("earlier text"),
        response_format=TRANSCRIPT_FORMS,
        temperature=RISING,
        timestamp_granularities={
            "description": "what verbose_json tells",
            "type": "array",
            "items": {"type": "string", "enum": ["word", "segment"]},
            "maxItems": 2,
        },
        stream={"type": "boolean", "description": "events, a delta for each segment; with json and text"},
    ),
    "Translation": question(
        "file",
        file=file("WAV"),
        model=text("left out: the default"),
        prompt=text("earlier text, in English"),
        response_format=TRANSCRIPT_FORMS,
        temperature=RISING,
    ),
    "Speech": question(
        "input",
        input=text("to be said"),
        model=text("left out: the default"),
        voice=text("see /v1/tts/voices"),
        speed=number("", 0.25, 4),
        response_format={"type": "string", "enum": list(encode.FORMS), "default": "mp3"},
        stream_format={"type": "string", "enum": ["audio", "sse"]},
    ),
    "Preload": schema(
        "",
        engines={"type": "array", "items": {"type": "string", "enum": ["llm", "vision", "asr", "tts", "embedding"]}},
        models={"type": "array", "items": {"type": "object"}},
    ),
    "Error": schema(
        "error",
        error=schema(
            "message type code param",
            message=text("what happened and what to do"),
            type=text("class of the error"),
            code=text("its own code"),
            param={"type": ["string", "null"], "description": "the field that is wrong"},
        ),
    ),
}
ATTACHED = {"ChatCompletion"}
"""JSON, also as the part ``payload`` of a form that has its pictures as files."""
FORMS = {"Image", "Recording", "Transcription", "Translation"}
OPTIONAL = {"Live"}
SESSION = [
    {"name": name, "in": place, "schema": text("of /v1/transcribe/stream; left out: the default session")}
    for name, place in (("session", "query"), ("X-Session-Id", "header"))
]

Row = tuple[str, str, str, str, str]


def document(rows: Iterable[Row]) -> dict[str, Any]:
    """OpenAPI 3.1 of (method, path, summary, body schema, media type of the answer) rows."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, summary, body, answer in rows:
        plain = re.sub(r":\w+}", "}", path)
        paths.setdefault(plain, {})[method.lower()] = _operation(method, plain, summary, body, answer)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "edgeserve",
            "version": edgeserve.__version__,
            "summary": "Chat, vision, transcription and speech with local models",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(method: str, path: str, summary: str, body: str, answer: str) -> dict[str, Any]:
    failure = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation: dict[str, Any] = {
        "operationId": f"{method.lower()}{re.sub(r'[^a-z]+', '_', path)}".rstrip("_"),
        "summary": summary,
        "responses": {
            "200": {"description": "done", "content": {answer: {}}},
            "default": {"description": "an error", "content": failure},
        },
    }
    if names := re.findall(r"{(\w+)}", path):
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if path in ("/v1/transcribe/push", "/v1/transcribe/flush"):
        operation["parameters"] = SESSION
    if body:
        media = MULTIPART if body in FORMS else MEDIA.get(body, "application/json")
        reference = {"$ref": f"#/components/schemas/{body}"}
        content: dict[str, Any] = {media: {"schema": reference}}
        if body in ATTACHED:
            form = schema("payload", payload=reference) | {"additionalProperties": file("attachment:NAME")}
            content[MULTIPART] = {"schema": form}
        operation["requestBody"] = {"required": body not in OPTIONAL, "content": content}
    return operation
