"""Names of voices: the model's own first, then OpenAI's."""

from __future__ import annotations

import httpx
import pytest

from edgeserve.api.sound.voices import OPENAI, choose, openai_names
from edgeserve.errors import InvalidRequest
from edgeserve.models import catalog
from edgeserve.models.sources.source import HubSource

WOMEN = {"alloy", "coral", "marin", "nova", "sage", "shimmer"}


def kokoro() -> list[str]:
    (source,) = catalog.find("kokoro").sources
    assert isinstance(source, HubSource)
    return [role for role in source.members if role != "model"]


def test_each_name_finds_a_voice_of_kokoro_that_fits() -> None:
    known = kokoro()
    names = openai_names(known)
    assert names.keys() == OPENAI.keys()
    assert all(OPENAI[name][0] in known for name in OPENAI)  # none is left to chance
    assert {name for name, voice in names.items() if voice[1] == "f"} == WOMEN
    assert names["nova"] == "af_nova"


def test_fewer_voices_still_fit_and_a_single_one_serves_all() -> None:
    few = openai_names(["af_heart", "am_adam"])
    assert {name for name, voice in few.items() if voice == "af_heart"} == WOMEN
    assert set(openai_names(["heart"]).values()) == {"heart"}
    assert set(openai_names(["am_adam"]).values()) == {"am_adam"}


def test_the_models_own_name_comes_first() -> None:
    assert choose(["heart", "fable"], "fable") == "fable"
    assert openai_names(["heart", "fable"])["fable"] == "fable"
    assert choose(["heart"], "fable") == "heart"
    assert choose(["heart"], None) is None
    assert choose(["af_heart", "am_adam"], "af_heart+am_adam") == "af_heart+am_adam"
    with pytest.raises(InvalidRequest, match="unknown voice 'Nova'; voices: heart; OpenAI's names stand for them: all"):
        choose(["heart"], "Nova")


@pytest.mark.parametrize("name", OPENAI)
def test_openai_names_are_served(client: httpx.Client, name: str) -> None:
    def said(voice: str) -> bytes:
        body = {"input": "hello", "voice": voice, "response_format": "pcm"}
        answer = client.post("/v1/audio/speech", json=body)
        assert answer.status_code == 200
        return answer.content

    assert said(name) == said("tone") != said("hum")
    assert client.post("/v1/tts/synthesize", json={"text": "hello", "voice": name}).content[44:] == said(name)


def test_openai_writes_a_voice_as_an_object_too(client: httpx.Client) -> None:
    said = [
        client.post("/v1/audio/speech", json={"input": "hello", "voice": voice, "response_format": "pcm"}).content
        for voice in ("hum", {"id": "hum"})
    ]
    assert said[0] == said[1]
    assert client.post("/v1/audio/speech", json={"input": "hello", "voice": {}}).status_code == 400


@pytest.mark.parametrize(("path", "field"), [("/v1/audio/speech", "input"), ("/v1/tts/synthesize", "text")])
def test_unknown_voices_are_refused_with_the_list(client: httpx.Client, path: str, field: str) -> None:
    for voice in ("bass", "tone+bass", "tone,hum"):
        failure = client.post(path, json={field: "hello", "voice": voice})
        assert failure.status_code == 400
        assert failure.json()["error"]["param"] == "voice"
        assert "voices: tone, hum" in failure.json()["error"]["message"]


def test_the_list_tells_both(client: httpx.Client) -> None:
    known = client.get("/v1/tts/voices").json()
    assert known == {"voices": ["tone", "hum"], "openai": dict.fromkeys(OPENAI, "tone")}


def test_voices_and_models_are_listed_as_open_webui_asks(client: httpx.Client) -> None:
    voices = [{"id": one, "name": one} for one in ("tone", "hum")]
    assert client.get("/v1/audio/voices").json() == {"voices": voices}
    assert client.get("/v1/audio/voices?model=fake-tts").json() == {"voices": voices}
    assert client.get("/v1/audio/voices?model=nobody").status_code == 404
    models = client.get("/v1/audio/models").json()["models"]
    assert models == [{"id": "fake-tts", "name": "fake-tts"}]
