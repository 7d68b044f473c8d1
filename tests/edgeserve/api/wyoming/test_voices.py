"""Voices: their languages, and the one that an event means."""

from __future__ import annotations

import dataclasses

import pytest
from support.cases import each
from support.gates import FAKES, fake_spec
from support.server import considerate_governor, fake_pool

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.wyoming.fields import Voice
from edgeserve.api.wyoming.voices import choose, language_of
from edgeserve.errors import InvalidRequest, ModelNotFound
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.residency.pool import Pool


@each(
    ("voice", "model", "language"),
    [
        ("af_heart", "kokoro", "en-US"),
        ("bm_george", "kokoro", "en-GB"),
        ("zf_xiaobei", "kokoro", "zh-CN"),
        ("joe", "piper-en-us-joe-medium", "en-US"),
        ("thorsten", "de_DE-thorsten-high", "de-DE"),
        ("tone", "fake-tts", "en-US"),
    ],
)
def test_languages(voice: str, model: str, language: str) -> None:
    assert language_of(voice, model) == language


def wanted(**fields: str) -> Voice:
    return Voice(Fields(dict(fields)), Limits())


@pytest.mark.parametrize(
    ("fields", "voice"),
    [
        ({}, None),
        ({"name": "hum"}, "hum"),
        ({"name": "piper", "speaker": "hum"}, "hum"),
        ({"name": "alloy"}, "tone"),
        ({"language": "en_US"}, "tone"),
        ({"language": "en-GB"}, "tone"),
    ],
)
def test_the_voice_of_an_event(fields: dict[str, str], voice: str | None) -> None:
    assert choose(fake_pool(["tts"]), "", wanted(**fields)) == ("tts", voice)


def test_a_voice_of_another_model_chooses_that_model() -> None:
    class Bells(FAKES["tts"]):  # type: ignore[misc]
        def voices(self) -> tuple[str, ...]:
            return "tone", "bell"

    governor = considerate_governor()
    engines = FAKES["tts"](fake_spec("tts")), Bells(dataclasses.replace(fake_spec("tts"), id="bells", name="bells"))
    pool = Pool([ThreadHost(one, governor) for one in engines], governor)
    assert choose(pool, "", wanted(name="bell")) == ("bells", "bell")
    assert choose(pool, "", wanted(name="tone")) == ("tts", "tone")
    assert choose(pool, "bells", wanted(name="tone")) == ("bells", "tone")


def test_voices_that_are_not_here() -> None:
    pool = fake_pool(["tts"])
    with pytest.raises(InvalidRequest, match="unknown voice 'nobody'; voices: tone, hum"):
        choose(pool, "", wanted(name="nobody"))
    with pytest.raises(InvalidRequest, match="no voice speaks 'fr'; languages: en-US"):
        choose(pool, "", wanted(language="fr"))
    with pytest.raises(ModelNotFound):
        choose(pool, "another", None)
