"""Several models of one job: the name in a request chooses, on every dialect's routes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.gates import FAKES, fake_spec
from support.managed import managed, model
from support.server import Running, considerate_governor, serving
from support.store import pulled

from edgeserve.api.models import choose
from edgeserve.errors import ModelNotFound
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import Job
from edgeserve.residency.directory import Terms
from edgeserve.residency.pool import Pool

MODELS: dict[str, tuple[Job, Terms]] = {
    "llm": ("llm", Terms("small")),
    "big": ("llm", Terms("qwen-7b", ("gpt-*",))),
    "ears": ("asr", Terms("whisper-small")),
    "ears2": ("asr", Terms("whisper-large", default=True)),
    "eyes": ("vision", Terms("smolvlm")),
}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    governor = considerate_governor()
    specs = [dataclasses.replace(fake_spec(job), id=model, name=model) for model, (job, _) in MODELS.items()]
    hosts = [ThreadHost(FAKES[spec.job](spec), governor) for spec in specs]
    terms = {model: one for model, (_, one) in MODELS.items()}
    with serving(Pool(hosts, governor, terms=terms)) as found:
        yield found


def uses(running: Running) -> dict[str, int]:
    found = running.client.get("/memory/models").json()
    return {one["model_name"]: one["use_count"] for one in found if one["use_count"]}


@pytest.mark.parametrize(
    ("path", "body", "named", "answers"),
    [
        ("/v1/chat", {"prompt": "hello"}, "", "llm"),
        ("/v1/chat", {"prompt": "hello"}, "big", "big"),
        ("/v1/chat", {"prompt": "hello"}, "gpt-4o", "big"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, "QWEN-7b", "big"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, "eyes", "eyes"),
        ("/v1/completions", {"prompt": "a"}, "big", "big"),
        ("/v1/embeddings", {"input": "a"}, "big", "big"),
    ],
)
def test_the_name_in_a_request_chooses(
    running: Running, path: str, body: dict[str, object], named: str, answers: str
) -> None:
    before = uses(running)
    answer = running.client.post(path, json=body | ({"model": named} if named else {}))
    assert answer.status_code == 200, answer.text
    assert uses(running) == before | {answers: before.get(answers, 0) + 1}
    if "model" in answer.json():
        assert answer.json()["model"] == answers


def test_an_unknown_name_is_answered_with_those_that_are_served(running: Running) -> None:
    answer = running.client.post("/v1/chat", json={"prompt": "hello", "model": "nobody"})
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == (
        "the model 'nobody' is not served here for this; served: llm, big (gpt-*), eyes. To add a model: "
        '`edgeserve pull nobody`, [models.NAME] in models.toml with model = "nobody", and `edgeserve reload`'
    )


def test_the_way_to_add_a_model_names_its_job(running: Running) -> None:
    answer = running.client.post("/v1/tts/synthesize", json={"text": "a", "model": "nobody"})
    assert answer.status_code == 404
    files = {"file": ("said.wav", b"RIFF")}
    answer = running.client.post("/v1/audio/transcriptions", files=files, data={"model": "a\n`b`"})
    assert answer.status_code == 404
    assert answer.json()["error"]["message"].endswith(
        "served: ears2, ears. To add a model: `edgeserve pull NAME`, [models.NAME] in models.toml with "
        'job = "asr" and model = "NAME", and `edgeserve reload`'
    )


def test_many_models_are_not_all_named() -> None:
    governor = considerate_governor()
    specs = [dataclasses.replace(fake_spec("llm"), id=f"m{n}", name=f"m{n}") for n in range(30)]
    pool = Pool([ThreadHost(FAKES["llm"](spec), governor) for spec in specs], governor)
    with pytest.raises(ModelNotFound, match=r"served: m0, .* m19 and 10 more\. To add"):
        choose(pool, "nobody", ("llm",))


def test_reports_are_by_model(running: Running) -> None:
    health = running.client.get("/v1/health").json()
    assert set(health["rungs"]) == set(health["hosts"]) == set(MODELS)
    assert health["engines"] == {"llm": True, "vision": True, "asr": True, "tts": False}
    listed = running.client.get("/v1/models").json()
    assert [one["id"] for one in listed["data"]] == list(MODELS)
    assert {one["name"]: one["type"] for one in listed["models"]} == {name: job for name, (job, _) in MODELS.items()}
    rows = running.client.get("/memory/models").json()
    assert {one["name"] for one in listed["models"] if one["default"]} == {"llm", "eyes", "ears2"}
    assert {one["id"] for one in rows if one["default"]} == {"llm", "eyes", "ears2"}
    assert running.client.get("/v1/models/gpt-4").json()["id"] == "big"


def test_a_model_is_loaded_and_evicted_by_its_name_or_its_job(running: Running) -> None:
    post = running.client.post
    loaded = post("/memory/preload", json={"engines": ["big", "asr"], "models": [{"name": "eyes"}]}).json()
    assert loaded == {"results": {"llm:big": True, "asr:ears2": True, "vision:eyes": True}}
    named = post("/memory/preload", json={"models": [{"name": "ears", "model_type": "asr"}]}).json()
    assert named == {"results": {"asr:ears": True}}
    assert post("/memory/evict/big").json() == {"status": "evicted", "model_type": "llm"}
    assert running.client.get("/v1/health").json()["rungs"]["big"] == "cold"
    assert post("/memory/evict/nobody").status_code == 404


@pytest.fixture
def lenient(running: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(running.pool, "stand_ins", True)
    return running


@pytest.mark.parametrize(
    ("path", "body", "named", "answers"),
    [
        ("/v1/chat", {"prompt": "hello"}, "claude-sonnet-4-5", "llm"),
        ("/v1/chat", {"prompt": "hello"}, "nobody", "llm"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, "openai/o3-mini", "llm"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, "openai/gpt-4o", "big"),
        ("/v1/completions", {"prompt": "a"}, "davinci-002", "llm"),
        ("/v1/embeddings", {"input": "a"}, "text-embedding-3-small", "llm"),
    ],
)
def test_the_default_answers_for_a_model_that_is_not_here(
    lenient: Running, path: str, body: dict[str, object], named: str, answers: str
) -> None:
    before = uses(lenient)
    answer = lenient.client.post(path, json=body | {"model": named})
    assert answer.status_code == 200, answer.text
    assert uses(lenient) == before | {answers: before.get(answers, 0) + 1}
    if "model" in answer.json():
        assert answer.json()["model"] == answers


@pytest.mark.parametrize("named", ["whisper-1", "tts-1", "ears", "whisper-large", "bge-reranker-v2-m3"])
def test_no_default_answers_for_a_model_of_another_job(lenient: Running, named: str) -> None:
    answer = lenient.client.post("/v1/chat", json={"prompt": "hello", "model": named})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_a_well_known_model_can_be_looked_up(lenient: Running) -> None:
    found = [
        lenient.client.get(f"/v1/models/{one}").json().get("id") for one in ("claude-opus-4", "whisper-1", "tts-1")
    ]
    assert found == ["llm", "ears2", None]
    assert lenient.client.get("/v1/models/nobody").status_code == 404


def test_a_route_that_manages_takes_no_default_for_another_model(lenient: Running) -> None:
    assert lenient.client.post("/memory/evict/nobody").status_code == 404
    assert lenient.client.get("/slots?model=nobody").status_code == 404
    assert lenient.client.post("/slots/0?action=erase&model=nobody").status_code == 404
    assert lenient.client.post("/memory/preload", json={"engines": ["nobody"]}).status_code == 404


def test_a_name_of_the_catalogue_means_its_model() -> None:
    governor = considerate_governor()
    stored = dataclasses.replace(fake_spec(), name="smollm2-135m-instruct")
    with serving(Pool([ThreadHost(FAKES["llm"](stored), governor)], governor)) as running:
        found = running.client.get("/v1/models/openai/SmolLM2:latest")
    assert found.json()["id"] == "smollm2-135m-instruct"


def test_pulled_models_are_listed_where_requests_may_name_them(tmp_path: Path) -> None:
    store = pulled(tmp_path / "models", "shelved")
    pulled(tmp_path / "models", "detector", "vad")
    for serve, names in (("configured", ["fake-llm"]), ("stored", ["fake-llm", "shelved"])):
        with managed({"llm": model()}, store, server={"serve": serve}) as (running, _):
            listed = running.client.get("/v1/models").json()
            anthropic = running.client.get("/v1/models", headers={"anthropic-version": "2023-06-01"}).json()
        assert [one["id"] for one in listed["data"]] == [one["id"] for one in anthropic["data"]] == names
        assert [one["name"] for one in listed["models"]] == ["fake-llm"]


@pytest.mark.parametrize(("served", "words"), [(["m"], "served: m; any pulled"), ([], "served: any pulled")])
def test_an_unknown_name_is_answered_with_the_way_to_pulled_models(served: list[str], words: str) -> None:
    governor = considerate_governor()
    specs = [dataclasses.replace(fake_spec("llm"), id=one, name=one) for one in served]
    hosts = [ThreadHost(FAKES["llm"](spec), governor) for spec in specs]
    pool = Pool(hosts, governor, on_demand=lambda name, jobs: None)
    with pytest.raises(ModelNotFound) as caught:
        choose(pool, "nobody", ("llm",))
    assert caught.value.message == (
        f"the model 'nobody' is not served here for this; {words} model, by its name in GET /v1/models. To add a "
        "model: `edgeserve pull nobody`"
    )


def test_a_job_without_a_model_says_how_to_add_one_also_where_pulled_models_are_served() -> None:
    pool = Pool([], considerate_governor(), on_demand=lambda name, jobs: None)
    assert choose(pool, "TTS", ("tts",)) == choose(pool, "", ("tts",)) == "tts"
