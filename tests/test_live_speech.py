"""Live transcription on the real engine: every word right, none taken back, and nothing is left behind."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from benchmarks.live import Heard, talk
from benchmarks.noises import claps
from support.server import Running, serving, until
from support.sound import pcm24
from support.speech import SENTENCES, STORY, spoken, word_error_rate
from websockets.sync.client import ClientConnection, connect

from edgeserve import assembly, config
from edgeserve.api.realtime import tasks
from edgeserve.engine import Rung
from edgeserve.models.store import Store

pytestmark = pytest.mark.models

CLAPS = 0.3 * claps()
SAID = SENTENCES[:3]
"""benchmarks/live.py has eight sessions at once, on a machine that does nothing else."""


@pytest.fixture
def server(store: Store) -> Iterator[Running]:
    settings = config.load({})
    store.pull(settings.models["asr"].model)
    only = dataclasses.replace(settings, models={"asr": settings.models["asr"]})
    with serving(assembly.build_pool(only, store)) as running:
        yield running


def test_some_at_once(server: Running) -> None:
    async def all_talk() -> list[Heard]:
        lead = numpy.zeros(8_000, numpy.float32)
        return await asyncio.gather(
            *(talk(server.url.rstrip("/"), numpy.concatenate([lead, spoken(text)])) for text in SAID)
        )

    for text in SAID:
        spoken(text)  # before the clock runs
    heard = asyncio.run(all_talk())
    errors = [word_error_rate(text, one.text) for text, one in zip(SAID, heard, strict=True)]
    assert max(errors) <= 0.15, [one.text for one in heard]
    assert sum(errors) / len(errors) <= 0.05, [one.text for one in heard]
    until(lambda: len(server.app.state.sessions) == 0)
    until(lambda: server.pool.gates["asr"].leases == 0)
    assert asyncio.run(server.pool.evict("asr"))


def test_a_story_longer_than_the_window(server: Running) -> None:
    samples, transcript = spoken(STORY), ""
    for start in range(0, len(samples), 48_000):
        piece = numpy.asarray(samples[start : start + 48_000], "<f4").tobytes()
        step = server.client.post("/v1/transcribe/push", content=piece).json()
        assert step["transcript"].startswith(transcript)
        transcript = step["transcript"]
        until(lambda: server.pool.gates["asr"].leases == 0, seconds=60)
    told = server.client.post("/v1/transcribe/flush").json()["transcript"]
    assert told.startswith(transcript)
    assert word_error_rate(STORY, told) <= 0.1, told


def test_claps_are_no_turn_of_a_dictation(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sound comes faster than it is spoken; the claps wake the detector, whose model is cold."""
    monkeypatch.setattr(tasks, "MOST_QUESTIONS", 240)  # a minute: after two seconds loudness would decide
    kind = "input_audio_buffer"
    sound = numpy.concatenate([CLAPS, numpy.zeros(16_000), spoken(SAID[0]), numpy.zeros(24_000)])
    url = f"{server.url.replace('http', 'ws', 1).rstrip('/')}/v1/realtime?intent=transcription"
    with connect(url) as socket:
        pieces = numpy.array_split(CLAPS, 50)
        for piece in pieces[:10]:
            append(socket, piece)
        until(lambda: server.pool.gates["asr"].rung is Rung.HOT, seconds=60)
        for piece in numpy.array_split(sound, 100):
            append(socket, piece)
        told = [json.loads(socket.recv(timeout=60))]
        while not told[-1]["type"].endswith("completed"):
            told.append(json.loads(socket.recv(timeout=60)))
    assert [one["type"] for one in told].count(f"{kind}.speech_started") == 1
    start = next(one["audio_start_ms"] for one in told if one["type"] == f"{kind}.speech_started")
    assert start == pytest.approx(1_000 + 5_000 + 1_000 - 300, abs=400)
    assert word_error_rate(SAID[0], told[-1]["transcript"]) <= 0.15


def append(socket: ClientConnection, sound: Any) -> None:
    """float samples at 16 kHz."""
    audio = base64.b64encode(pcm24(numpy.asarray(sound, "<f4").tobytes())).decode()
    socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
