"""One live transcription, over HTTP or a WebSocket: its words only grow, and its end says how long it was."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from benchmarks.chaos.replies import BROKEN, CUT, FAILED, LEFT, REFUSED, RIGHT, WRONG, told_in

VANISHING = 0.12
PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Sound:
    """``pieces``: float32 samples at 16 kHz. ``words`` that the end must name."""

    pieces: Sequence[bytes]
    words: Sequence[str]

    @property
    def seconds(self) -> float:
        return sum(map(len, self.pieces)) / 64_000


async def session(kind: str, url: str, sound: Sound, dice: random.Random, client: httpx.AsyncClient) -> dict[str, Any]:
    """Fields of the reply."""
    steps = dice.randrange(1, len(sound.pieces)) if dice.random() < VANISHING else None
    try:
        return await (_over_http(client, sound, steps) if kind == "live HTTP" else _over_socket(url, sound, steps))
    except httpx.HTTPError as error:
        return {"status": BROKEN, "verdict": FAILED, "code": CUT, "told": f"{type(error).__name__}: {error}"}


async def _over_http(client: httpx.AsyncClient, sound: Sound, steps: int | None) -> dict[str, Any]:
    """``steps``: pushes after which the client goes without a word."""
    answer = await client.post("/v1/transcribe/stream")
    if answer.status_code != 200:
        return _refused(answer)
    query = {"session": answer.json()["session"]}
    transcript = ""
    for piece in sound.pieces[:steps]:
        answer = await client.post("/v1/transcribe/push", params=query, content=piece)
        if answer.status_code != 200:
            await client.delete(f"/v1/transcribe/stream/{query['session']}")
            return _refused(answer)
        if fault := _taken_back(transcript, answer.json()):
            return fault
        transcript = answer.json()["transcript"]
        await asyncio.sleep(PAUSE)
    if steps is not None:
        await client.delete(f"/v1/transcribe/stream/{query['session']}")
        return {"status": 200, "verdict": LEFT}
    answer = await client.post("/v1/transcribe/flush", params=query)
    if answer.status_code != 200:
        await client.delete(f"/v1/transcribe/stream/{query['session']}")
        return _refused(answer)
    return _taken_back(transcript, answer.json()) or _ended(sound, answer.json())


async def _over_socket(url: str, sound: Sound, steps: int | None) -> dict[str, Any]:
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus, WebSocketException

    try:
        async with connect(f"{url.replace('http', 'ws', 1)}/v1/transcribe/live", proxy=None) as socket:
            for piece in sound.pieces[:steps]:
                await socket.send(piece)
                await asyncio.sleep(PAUSE)
            if steps is not None:
                return {"status": 101, "verdict": LEFT}
            await socket.send(json.dumps({"type": "flush"}))
            transcript = ""
            while True:
                message = json.loads(await socket.recv())
                if message["type"] == "error":
                    error = message["error"]
                    return {"status": 101, "verdict": FAILED, "code": error["code"], "told": error["message"]}
                if message["type"] in ("text", "flushed"):
                    if fault := _taken_back(transcript, message):
                        return fault
                    transcript = message["transcript"]
                if message["type"] == "flushed":
                    return _ended(sound, message)
    except InvalidStatus as error:
        code, told = told_in(error.response.body or b"") or ("", str(error))
        verdict = REFUSED if code else WRONG
        return {"status": error.response.status_code, "verdict": verdict, "code": code, "told": told}
    except (OSError, EOFError, WebSocketException) as error:
        return {"status": BROKEN, "verdict": FAILED, "code": CUT, "told": f"{type(error).__name__}: {error}"}


def _refused(answer: httpx.Response) -> dict[str, Any]:
    code, told = told_in(answer.content) or ("", answer.text[:300])
    verdict = REFUSED if code and (answer.status_code >= 500 or code == "engine_not_configured") else WRONG
    return {"status": answer.status_code, "verdict": verdict, "code": code, "told": told}


def _taken_back(transcript: str, message: dict[str, Any]) -> dict[str, Any] | None:
    if message["transcript"].startswith(transcript):
        return None
    return {"status": 200, "verdict": WRONG, "told": f"{message['transcript']!r} came after {transcript!r}"}


def _ended(sound: Sound, message: dict[str, Any]) -> dict[str, Any]:
    text, seconds = message["transcript"].lower(), message["duration"]
    missing = [word for word in sound.words if word not in text]
    if missing or abs(seconds - sound.seconds) > 0.1:
        fault = f"{text!r} of {seconds} s lacks {missing} of {sound.seconds} s"
        return {"status": 200, "verdict": WRONG, "told": fault}
    return {"status": 200, "verdict": RIGHT}
