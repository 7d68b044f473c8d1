"""describe and info."""

from __future__ import annotations

import pytest
from support.server import fake_pool
from support.wyoming import Wyoming, speaking_wyoming

import edgeserve
from edgeserve.api.wyoming.info import UNKNOWN, info
from edgeserve.engine import Rung
from edgeserve.jobs import Job

WHO = {"name": "", "url": ""}


def test_info(wyoming: Wyoming) -> None:
    (event,) = wyoming.ask("describe", until="info")
    model = {"attribution": WHO, "installed": True, "description": "", "version": None}
    program = {"name": "edgeserve", "attribution": WHO, "installed": True, "version": edgeserve.__version__}
    assert event.data == {
        "asr": [
            {
                **program,
                "description": "speech to text with local models",
                "models": [{**model, "name": "fake-asr", "languages": ["en", "de"]}],
                "supports_transcript_streaming": True,
                "requires_external_vad": True,
            }
        ],
        "tts": [
            {
                **program,
                "description": "text to speech with local models",
                "voices": [{**model, "name": n, "languages": ["en-US"], "speakers": None} for n in ("tone", "hum")],
                "supports_synthesize_streaming": True,
            }
        ],
        "handle": [
            {
                **program,
                "description": "conversation with local models",
                "models": [{**model, "name": "fake-llm", "languages": ["en"]}],
                "supports_handled_streaming": True,
                "supports_home_control": False,
            }
        ],
        "intent": [],
        "wake": [],
        "mic": [],
        "snd": [],
    }


def test_info_loads_nothing() -> None:
    with speaking_wyoming(fake_pool(["asr", "tts"])) as running:
        running.ask("describe", until="info")
        rungs = {model: gate.rung for model, gate in running.running.pool.gates.items()}
        assert rungs == {"asr": Rung.COLD, "tts": Rung.COLD}


@pytest.mark.parametrize(("job", "kind"), [("asr", "asr"), ("tts", "tts"), ("llm", "handle"), ("vision", "handle")])
def test_a_kind_without_a_model_has_no_program(job: Job, kind: str) -> None:
    told = info(fake_pool([job]))
    assert [name for name, programs in told.items() if programs] == [kind]


def test_a_model_that_does_not_tell_its_languages_is_offered() -> None:
    assert info(fake_pool(["asr"]))["asr"][0]["models"][0]["languages"] == list(UNKNOWN)
