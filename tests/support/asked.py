"""Clients that ask a server on fake engines again and again, and check each answer."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
from support.sound import speech
from websockets.sync.client import ClientConnection

CHAT = "/v1/chat/completions"


def says(text: str, **more: Any) -> dict[str, Any]:
    """The body of a chat with one message."""
    return {"messages": [{"role": "user", "content": text}], **more}


class Asked:
    """Each client asks texts of its own. ``results``: when a request began, and "ok", its status, or "broken"."""

    def __init__(self, url: str) -> None:
        self.results: list[tuple[float, str]] = []
        self._url = url
        self._stop = threading.Event()

    @contextlib.contextmanager
    def load(self, clients: int) -> Iterator[None]:
        threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(clients)]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._stop.set()
            for one in threads:
                one.join(60)

    def _ask(self, number: int) -> None:
        count = 0
        with httpx.Client(timeout=60, trust_env=False) as client:
            while not self._stop.is_set():
                count += 1
                text, began = f"client {number} question {count}", time.monotonic()
                try:
                    answer = client.post(self._url + CHAT, json=says(text))
                except httpx.TransportError:
                    self.results.append((began, "broken"))
                    continue
                right = answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"] == text
                self.results.append((began, "ok" if right else str(answer.status_code)))


def hears(live: ClientConnection, seconds: float = 30.0) -> str:
    """The transcript of two seconds of sound that a live transcription gets; each message comes in so many seconds."""
    assert json.loads(live.recv(seconds))["type"] == "started"
    live.send(speech(2))
    live.send(json.dumps({"type": "flush"}))
    while (message := json.loads(live.recv(seconds)))["type"] != "flushed":
        pass
    return str(message["transcript"])
