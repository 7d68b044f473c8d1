"""Requests from the server's own OpenAPI document: right ones, nearly right ones, and rows of them."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from benchmarks.fuzz import corpus, values
from benchmarks.fuzz.asks import JSON, form
from benchmarks.fuzz.case import SESSION, Ask, Case, Raw
from benchmarks.fuzz.client import request
from benchmarks.fuzz.mutate import mutated

FORM = "multipart/form-data"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "X-Y")
PIECES = (
    struct.pack("<f", 0.25) * 8000,
    b"",
    b"abc",
    struct.pack("<f", float("nan")) * 100,
    bytes(640_000),
    bytes(640_004),
)
ENGINES = ("llm", "vision", "asr", "tts", "embedding", "rerank", "nobody", "LLM", "%00", "..", "a/b")
NAMES = ("llm", "fake-llm", "nobody", "%00", "a%2Fb", "%F0%9F%8E%88", "..", "%ff", "x" * 3000)
STATELESS, BROKEN = 0.7, 0.08
"""Shares of single requests, the others are rows; and of requests whose bytes are broken, head and all."""
HEAD_WORDS = (
    *(
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b" ",
        b"\t",
        b":",
        b"\0",
        b"\xff",
        b"HTTP/1.0",
        b"HTTP/2.0",
        b"HTTP/9.9",
        b"%",
        b"//",
        b"?",
    ),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 9\r\n",
        b"Content-Length: -1\r\n",
        b"Host: a\r\nHost: b\r\n",
        b"\r\n folded",
    ),
    *(
        b"Expect: 100-continue\r\n",
        b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
        b"GET http://a/ HTTP/1.1\r\n",
        b"0\r\n\r\n",
    ),
    *(
        b"Sec-WebSocket-Key: x\r\n",
        b"Connection: keep-alive\r\n",
        b"X: " + b"a" * 9000 + b"\r\n",
        b"X:\r\n" * 200,
        b"PRI * HTTP/2.0",
    ),
)

CHANGING = (
    *("/admin/pull", "/admin/models", "/admin/recommend", "/admin/config", "/models", "/memory/feed"),
    *("/api/pull", "/api/delete"),
)
"""Routes that would fetch and delete models of this machine, measure it, change the limits under test, or never end."""


class Routes:
    """``document``: /openapi.json, decoded."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self._operations = [
            (method.upper(), path, one)
            for path, ways in document["paths"].items()
            for method, one in ways.items()
            if not path.startswith(CHANGING)
        ]

    def make(self, dice: random.Random, number: int) -> Case:
        if dice.random() >= STATELESS:
            name, steps = dice.choice((live, admin))(dice)
            return Case("routes", number, name, steps)
        method, path, one = dice.choice(self._operations)
        body, media, name = self._body(one, dice)
        if dice.random() < 0.05:
            method, name = dice.choice(METHODS), "another method"
        ask = Ask(method, self._path(path, one, dice), body, media)
        if dice.random() < BROKEN:
            return Case("routes", number, f"a broken head for {path}", [Raw(mutated(request(ask), dice, HEAD_WORDS))])
        return Case("routes", number, f"{name} for {path}", [ask])

    def follows(self, path: str, body: bytes) -> bool | None:
        """Whether a JSON body follows the schema of its route; None for a route that takes no JSON."""
        import jsonschema

        content = self.document["paths"].get(path, {}).get("post", {}).get("requestBody", {}).get("content", {})
        if JSON not in content or not body.startswith(b"{"):
            return None
        schema = {**values.resolved(content[JSON]["schema"], self.document), "components": self.document["components"]}
        return bool(jsonschema.Draft202012Validator(schema).is_valid(json.loads(body)))

    def _path(self, path: str, one: Mapping[str, Any], dice: random.Random) -> str:
        made = re.sub(r"{\w+}", lambda found: dice.choice(NAMES), path)
        asked = [two for two in one.get("parameters", ()) if two["in"] == "query" and dice.random() < 0.7]
        query = "&".join(f"{two['name']}={quote(dice.choice(values.TEXTS), errors='replace')}" for two in asked)
        return f"{made}?{query}" if query else made

    def _body(self, one: Mapping[str, Any], dice: random.Random) -> tuple[bytes, str, str]:
        content = one.get("requestBody", {}).get("content", {})
        if not content:
            return (b"", "", "no body") if dice.random() < 0.8 else (b'{"a": 1}', JSON, "a body too many")
        media = dice.choice(list(content))
        schema = values.resolved(content[media]["schema"], self.document)
        if media == FORM:
            return self._form(schema, dice), f"{FORM}; boundary=x", "a form"
        if media != JSON:
            return dice.choice(PIECES), media, "bytes"
        body = values.following(schema, self.document, dice)
        if dice.random() < 0.5:
            return json.dumps(body).encode(), media, "a right body"
        return json.dumps(values.spoiled(body, dice)).encode(), media, "a wrong body"

    def _form(self, schema: Mapping[str, Any], dice: random.Random) -> bytes:
        parts: list[tuple[str, str | None, bytes]] = []
        for name, one in schema["properties"].items():
            one = values.resolved(one, self.document)
            if one.get("format") == "binary":
                files = corpus.pictures() if name == "image" else corpus.sounds()
                parts.append((name, "file", dice.choice(list(files.values()))))
            elif name in schema["required"] or dice.random() < 0.2:
                value = values.following(one, self.document, dice)
                value = values.spoiled(value, dice) if dice.random() < 0.3 else value
                text = value if isinstance(value, str) else json.dumps(value)
                parts.append((name, None, text.encode("utf-8", "surrogatepass")))
        return form(parts)


def live(dice: random.Random) -> tuple[str, Sequence[Ask]]:
    """A live session in which anything may follow anything."""
    name = SESSION.decode()
    where = [
        ("push", "POST", f"/v1/transcribe/push?session={name}"),
        ("flush", "POST", f"/v1/transcribe/flush?session={name}"),
    ]
    where += [("delete", "DELETE", f"/v1/transcribe/stream/{name}"), ("push", "POST", "/v1/transcribe/push")]
    where += [("lost", "POST", "/v1/transcribe/push?session=nobody"), ("cold", "POST", "/memory/evict/asr")]
    steps = [Ask("POST", "/v1/transcribe/stream", b"{}" if dice.random() < 0.5 else b"", JSON)]
    for _ in range(dice.randrange(1, 7)):
        what, method, path = dice.choice((*where, where[0], where[0]))
        steps.append(Ask(method, path, dice.choice(PIECES) if what in ("push", "lost") else b""))
    return "a live session", steps


def admin(dice: random.Random) -> tuple[str, Sequence[Ask]]:
    """Engines up and down, and requests in between."""
    steps = []
    for _ in range(dice.randrange(2, 6)):
        way = dice.random()
        if way < 0.4:
            steps.append(Ask("POST", f"/memory/evict/{dice.choice(ENGINES)}"))
        elif way < 0.6:
            body = {"engines": dice.sample(ENGINES[:5], dice.randrange(6))}
            steps.append(Ask("POST", "/memory/preload", json.dumps(body).encode(), JSON))
        elif way < 0.8:
            body = {"messages": [{"role": "user", "content": "hello"}], "keep_alive": dice.choice((0, -1, "1s"))}
            steps.append(Ask("POST", "/v1/chat/completions", json.dumps(body).encode(), JSON))
        else:
            steps.append(
                Ask(
                    "GET",
                    f"/memory/{dice.choice(('stats', 'models', 'evictions', 'offloaded', 'fragmentation', 'health'))}",
                )
            )
    return "engines up and down", steps
