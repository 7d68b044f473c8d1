"""Requests to a server under measurement, over its public routes, each timed to its first byte and to its last."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Answer:
    """``first``: seconds to the first token, sound or, where an answer comes whole, to it; ``whole``: to its end."""

    first: float
    whole: float
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Routes of the server at ``port``. Every answer but 200 raises RuntimeError with what the server said."""

    def __init__(self, port: int) -> None:
        self._port = port

    def chat(self, prompt: str, tokens: int) -> Answer:
        """Streamed, token by token."""
        return self._ended(self.post("/v1/chat/stream", {"prompt": prompt, "max_length": tokens}), b'"done"')

    def soap(self, transcript: str, tokens: int) -> Answer:
        return self.post("/v1/chat/soap", {"transcript": transcript, "max_length": tokens})

    def see(self, picture: bytes, question: str, tokens: int) -> Answer:
        """A question about a PNG, streamed."""
        image = {"url": f"data:image/png;base64,{base64.b64encode(picture).decode()}"}
        content = [{"type": "image_url", "image_url": image}, {"type": "text", "text": question}]
        messages = [{"role": "user", "content": content}]
        body = {"model": "vision", "messages": messages, "max_tokens": tokens, "stream": True}
        return self._ended(self.post("/v1/chat/completions", body), b"[DONE]")

    def speak(self, text: str) -> Answer:
        """A WAV of unknown length, streamed."""
        body = {"model": "tts", "input": text, "response_format": "wav", "stream_format": "audio"}
        return self.post("/v1/audio/speech", body)

    def transcribe(self, wav: bytes) -> Answer:
        boundary = uuid.uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="audio"; filename="audio.wav"\r\n\r\n'
        body = head.encode() + wav + f"\r\n--{boundary}--\r\n".encode()
        form = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return self.ask("POST", "/v1/transcribe/file", body, form)

    def get(self, path: str) -> Any:
        return self.ask("GET", path).json

    def post(self, path: str, body: object = None) -> Answer:
        return self.ask("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            started = time.perf_counter()
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            first = answer.read(1)
            first_at = time.perf_counter()
            whole = first + answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{method} {path} answered {answer.status}: {whole[:500]!r}")
            return Answer(first_at - started, time.perf_counter() - started, whole)

    @staticmethod
    def _ended(answer: Answer, last: bytes) -> Answer:
        """A stream that was cut tells so in its last event, under status 200."""
        if last not in answer.body[-4096:]:
            raise RuntimeError(f"the answer ended before its end: {answer.body[-500:]!r}")
        return answer
