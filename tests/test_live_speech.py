"""Live transcription on the real engine: every word right, none taken back, and nothing is left behind."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator

import numpy
import pytest
from benchmarks.live import Heard, talk
from support.server import Running, serving, until
from support.speech import SENTENCES, STORY, spoken, word_error_rate

from edgeserve import assembly, config
from edgeserve.models.store import Store

pytestmark = pytest.mark.models

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
