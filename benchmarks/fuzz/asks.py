"""Cases of broken bodies: JSON, forms, sound files and pictures."""

from __future__ import annotations

import base64
import json
import random
import zlib
from typing import Any

from benchmarks.fuzz import corpus, values
from benchmarks.fuzz.case import Ask, Case
from benchmarks.fuzz.mutate import mutated

from edgeserve.api.ollama.context import written

JSON = "application/json"
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"a": {}}}},
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"a": 1}'}}
FORM: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
FLAT, FLAT_FORM = {"type": "function"} | TOOL["function"], {"type": "json_schema"} | FORM["json_schema"]
"""The tool and the form in the dialect Responses."""
USER = {"role": "user", "content": 'hello get_weather {"a": 1}'}
GIF = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
BODIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/chat", {"prompt": "hello", "system": "short", "max_length": 20, "keep_alive": "5m"}),
    ("/v1/chat/stream", {"messages": [USER, {"role": "assistant", "content": "hi"}, USER], "max_length": 20}),
    ("/v1/chat/soap", {"transcript": "the patient coughs", "max_length": 20}),
    ("/v1/chat/summarize", {"text": "a long text", "max_length": 20}),
    (
        "/v1/chat/completions",
        {"messages": [USER], "tools": [TOOL], "tool_choice": "auto", "max_tokens": 20, "stop": ["x"]},
    ),
    (
        "/v1/chat/completions",
        {
            "messages": [
                USER,
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "content": "1", "tool_call_id": "call_1"},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
        },
    ),
    (
        "/v1/chat/completions",
        {"messages": [USER], "response_format": FORM, "logprobs": True, "top_logprobs": 2, "n": 2, "seed": 1},
    ),
    (
        "/v1/chat/completions",
        {
            "model": "vision",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what?"},
                        {"type": "image_url", "image_url": {"url": "attachment:a"}},
                    ],
                }
            ],
        },
    ),
    ("/v1/completions", {"prompt": ["a b", "c"], "n": 1, "best_of": 1, "echo": True, "logprobs": 1, "max_tokens": 9}),
    (
        "/v1/completions",
        {"prompt": [1, 2, 3], "stream": True, "temperature": 0.5, "top_p": 0.9, "logit_bias": {"1": -1}},
    ),
    ("/v1/responses", {"input": 'hello get_weather {"a": 1}', "tools": [FLAT, {"type": "web_search"}], "stream": True}),
    (
        "/v1/responses",
        {
            "input": [
                {"role": "developer", "content": "short"},
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "1"}]},
            ],
            "text": {"format": FLAT_FORM},
            "include": ["message.output_text.logprobs"],
            "top_logprobs": 2,
            "metadata": {"a": "b"},
            "max_output_tokens": 9,
        },
    ),
    ("/v1/responses/input_tokens", {"input": "one two", "instructions": "short", "reasoning": {"effort": "none"}}),
    ("/v1/embeddings", {"input": ["one", "two"], "encoding_format": "base64", "dimensions": 4}),
    ("/v1/rerank", {"query": "one", "documents": ["one two", {"text": "three"}], "top_n": 1, "max_tokens_per_doc": 4}),
    ("/rerank", {"query": "one", "texts": ["one", "two"], "raw_scores": True, "truncate": True, "return_text": True}),
    ("/v1/score", {"text_1": ["one", "two"], "text_2": ["one", "one"], "use_activation": False}),
    ("/v1/audio/speech", {"input": "two words", "voice": "alloy", "response_format": "wav", "speed": 1.5}),
    ("/v1/audio/speech", {"input": "two words", "stream_format": "sse", "response_format": "pcm"}),
    ("/v1/tts/synthesize", {"text": "two words", "speed": 0.5}),
    ("/v1/transcribe/stream", {"language": "en", "prompt": "earlier", "keep_alive": 0}),
    (
        "/api/chat",
        {
            "messages": [
                USER,
                {"role": "assistant", "tool_calls": [{"function": {"name": "get_weather", "arguments": {"a": 1}}}]},
                {"role": "tool", "content": "1", "tool_name": "get_weather"},
            ],
            "tools": [TOOL],
            "options": {"num_predict": 20, "num_ctx": 8192, "stop": ["x"]},
            "keep_alive": "5m",
        },
    ),
    (
        "/api/chat",
        {"model": "vision", "messages": [{"role": "user", "content": "what?", "images": [GIF]}], "stream": False},
    ),
    ("/api/generate", {"prompt": "one two", "system": "short", "format": "json", "logprobs": True, "top_logprobs": 2}),
    ("/api/generate", {"prompt": "one two", "context": written([("user", "three")]), "stream": False}),
    ("/api/generate", {"model": "llm", "keep_alive": 0}),
    ("/api/embed", {"input": ["one", "two"], "dimensions": 4, "truncate": False}),
    ("/api/embeddings", {"prompt": "one"}),
    ("/api/show", {"model": "llm", "verbose": True}),
    ("/memory/preload", {"engines": ["llm", "tts"], "models": [{"name": "fake-asr", "model_type": "asr"}]}),
)
"""A body for each route of JSON; all of them are right."""
SPREAD = "/v1/chat/completions", "/v1/audio/speech"
MEDIA = (
    JSON,
    JSON,
    JSON,
    JSON,
    "",
    "text/plain",
    "application/json; charset=utf-16",
    "multipart/form-data",
    "application/vnd.x+json",
    "application/x-www-form-urlencoded",
    "\xff",
)
ODD_HEADERS = (
    ("Content-Encoding", "gzip"),
    ("Expect", "100-continue"),
    ("Accept", "text/html;q=0.1, */*;q=x"),
    ("X-Request-Id", "\xff" * 300),
    ("Content-Length", "5"),
    ("Content-Length", "-1"),
    ("Content-Length", "99999999999999999999"),
    ("Content-Length", "0x10"),
    ("Transfer-Encoding", "chunked"),
    ("Transfer-Encoding", "gzip, chunked"),
    ("Connection", "upgrade"),
    ("Upgrade", "websocket"),
    ("Cookie", "a" * 9000),
    ("Host", "x\x00y"),
    ("Range", "bytes=0-1"),
    ("Authorization", "Bearer \xe9"),
    ("X-Session-Id", "default"),
)
FILES = {"/v1/transcribe/file": "audio", "/v1/audio/transcriptions": "file", "/v1/audio/translations": "file"}
"""Routes of sound, and the name of their file."""
FIELDS = (
    ("model", "asr"),
    ("language", "en"),
    ("prompt", "earlier"),
    ("response_format", "verbose_json"),
    ("temperature", "0.2"),
    ("timestamp_granularities[]", "word"),
    ("timestamp_granularities[]", "segment"),
    ("stream", "true"),
    ("keep_alive", "0"),
    ("response_format", "srt"),
    ("include[]", "logprobs"),
    ("chunking_strategy", "auto"),
)
SIGHT = ("/v1/vision/analyze", "/v1/vision/ocr")


def json_case(dice: random.Random, number: int) -> Case:
    path, body = dice.choice(BODIES)
    way = dice.random()
    if way < 0.6:
        name, data = "foreign values", values.written(values.spoiled(body, dice), dice)
    elif way < 0.75:
        name, data = "foreign text", values.written(body, dice)
    else:
        words = [one.encode("utf-8", "surrogatepass") for one in values.BARE]
        name, data = "broken bytes", mutated(json.dumps(body).encode(), dice, words)
    headers = [dice.choice(ODD_HEADERS)] if dice.random() < 0.1 else []
    return Case("json", number, f"{name} for {path}", [Ask("POST", path, data, dice.choice(MEDIA), headers)])


def form(parts: list[tuple[str, str | None, bytes]], boundary: str = "x") -> bytes:
    """A form of (name, name of the file or None, contents)."""
    out = b""
    for name, file, data in parts:
        named = f'; filename="{file}"\r\nContent-Type: application/octet-stream' if file is not None else ""
        out += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + data + b"\r\n"
    return out + f"--{boundary}--\r\n".encode()


def _form_ask(path: str, data: bytes, boundary: str = "x") -> Ask:
    return Ask("POST", path, data, f"multipart/form-data; boundary={boundary}")


def multipart_case(dice: random.Random, number: int) -> Case:
    """A form that is broken, around a file that is whole."""
    if dice.random() < 0.3:
        path, parts = (
            "/v1/chat/completions",
            [("payload", None, values.written(BODIES[7][1], dice)), ("a", "a.png", corpus.pictures()["gif"])],
        )
    elif dice.random() < 0.4:
        path = dice.choice(SIGHT)
        parts = [("image", "a.gif", corpus.pictures()["gif"]), ("prompt", None, b"what?")]
    else:
        path = dice.choice(list(FILES))
        parts = [(FILES[path], "a.wav", corpus.sounds()["wav"][:400]), *_fields(dice)]
    for _ in range(dice.choice((0, 0, 1, 2))):
        at = dice.randrange(len(parts))
        parts[at:at] = [parts[at]] * dice.choice((1, 2, 9, 70)) if dice.random() < 0.5 else [_odd_part(dice)]
    dice.shuffle(parts)
    data = form(parts)
    if dice.random() < 0.5:
        data = mutated(data, dice, corpus.FORM_WORDS)
    boundary = dice.choice((*["x"] * 40, '"x"', "y", "", "x" * 300, "x; charset=utf-16", "x; charset=latin-1", "\xff"))
    return Case("multipart", number, f"form for {path}", [_form_ask(path, data, boundary)])


def _fields(dice: random.Random) -> list[tuple[str, str | None, bytes]]:
    chosen = [one for one in FIELDS if dice.random() < 0.25]
    return [
        (name, None, dice.choice((value, value, *values.TEXTS)).encode("utf-8", "surrogatepass"))
        for name, value in chosen
    ]


def _odd_part(dice: random.Random) -> tuple[str, str | None, bytes]:
    name = dice.choice(("", "payload", "file", "[]", "model[]", "a\\", "x" * 2000, "keep_alive", "é", "\0"))
    return (
        name,
        dice.choice((None, "", "a", "../../x", "\udcff".encode("utf-8", "replace").decode())),
        dice.randbytes(dice.choice((0, 3, 3000))),
    )


def sound_case(dice: random.Random, number: int) -> Case:
    name, whole = dice.choice(list(corpus.sounds().items()))
    data = mutated(whole, dice, corpus.SOUND_WORDS)
    if dice.random() < 0.05:
        other = dice.choice(list(corpus.sounds().values()))
        data = data[: dice.randrange(len(data) + 1)] + other[dice.randrange(len(other)) :]
    path = dice.choice(list(FILES))
    parts = [(FILES[path], f"a.{name}", data), *(_fields(dice) if dice.random() < 0.2 else [])]
    return Case("sound", number, name, [_form_ask(path, form(parts, "fuzz-boundary"), "fuzz-boundary")])


def _checked(png: bytes) -> bytes:
    """A PNG file with right checksums, as far as its chunks have lengths that fit: it gets further."""
    data, at = bytearray(png), 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        if end + 4 > len(data):
            break
        data[end : end + 4] = zlib.crc32(data[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(data)


def picture_case(dice: random.Random, number: int) -> Case:
    name, whole = dice.choice(list(corpus.pictures().items()))
    data = mutated(whole, dice, corpus.PICTURE_WORDS)
    if name.startswith("png") and dice.random() < 0.7:
        data = _checked(data)
    if dice.random() < 0.7:
        path = dice.choice(SIGHT)
        ask = _form_ask(path, form([("image", "a", data)], "fuzz-boundary"), "fuzz-boundary")
    else:
        media = dice.choice(("image/png", "image/jpeg", "", "text/plain"))
        url = f"data:{media};base64,{base64.b64encode(data).decode()}"
        part = {"type": "image_url", "image_url": {"url": url}}
        body = {"model": "vision", "max_tokens": 5, "messages": [{"role": "user", "content": [part]}]}
        ask = Ask("POST", "/v1/chat/completions", json.dumps(body).encode(), JSON)
    return Case("pictures", number, name, [ask])
