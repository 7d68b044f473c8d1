"""Adapters of a request: by the name of the model, or by llama-server's field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cases import each
from support.server import Running, considerate_governor, serving

from edgeserve.engine import Adapter, ModelSpec
from edgeserve.engines.fake.chat import FakeChat
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.messages import ChatRequest, EmbedRequest
from edgeserve.residency.directory import Terms
from edgeserve.residency.pool import Pool

ADAPTERS = (Adapter("adapter0", 0.5), Adapter("adapter1", 2.0, "Sum"), Adapter("adapter2", 1.0, "tone"))
ALWAYS = ("adapter0", 0.5)
TALK = [{"role": "user", "content": "hello"}]


class Listening(FakeChat):
    """Keeps the requests that it answers."""

    asked: list[Any]

    def chat(self, request: ChatRequest, cancel: Any) -> Any:
        self.asked.append(request)
        return super().chat(request, cancel)

    def embed(self, request: EmbedRequest, cancel: Any) -> Any:
        self.asked.append(request)
        return super().embed(request, cancel)


@pytest.fixture(scope="module")
def adapted() -> Iterator[Running]:
    """``llm`` has three adapters, ``plain`` none, and ``twin`` one that is named as one of ``llm``."""
    governor = considerate_governor()
    files = {one.role: Path("/home/ada") / f"{one.role}.gguf" for one in ADAPTERS}
    specs = [
        ModelSpec("llm", "base", "edgeserve.engines.fake.chat:FakeChat", files, adapters=ADAPTERS),
        ModelSpec("llm", "plain", "edgeserve.engines.fake.chat:FakeChat", id="plain"),
        ModelSpec("llm", "twin", "edgeserve.engines.fake.chat:FakeChat", files, id="twin", adapters=ADAPTERS[2:]),
    ]
    for one in (engines := [Listening(spec) for spec in specs]):
        one.asked = []
    pool = Pool([ThreadHost(one, governor) for one in engines], governor, terms={"llm": Terms(aliases=("gpt-*",))})
    with serving(pool) as running:
        yield running


def asked_of(running: Running, model: str) -> list[Any]:
    engine: Any = running.pool.gates[model].host
    found: list[Any] = engine.engine.asked
    return found


def chat(running: Running, **body: Any) -> Any:
    return running.client.post("/v1/chat/completions", json={"messages": TALK, **body})


@pytest.mark.parametrize(
    ("model", "served", "shown", "used"),
    [
        ("", "llm", "base", None),
        ("base", "llm", "base", None),
        ("Sum", "llm", "Sum", (ALWAYS, ("adapter1", 2.0))),
        ("sum", "llm", "Sum", (ALWAYS, ("adapter1", 2.0))),
        ("llm:sum", "llm", "Sum", (ALWAYS, ("adapter1", 2.0))),
        ("base:tone", "llm", "tone", (ALWAYS, ("adapter2", 1.0))),
        ("tone", "llm", "tone", (ALWAYS, ("adapter2", 1.0))),
        ("twin:tone", "twin", "tone", (("adapter2", 1.0),)),
        ("plain", "plain", "plain", None),
        ("gpt-4", "llm", "base", None),
    ],
)
def test_the_model_of_a_request_names_an_adapter(
    adapted: Running, model: str, served: str, shown: str, used: Any
) -> None:
    requests = asked_of(adapted, served)
    answer = chat(adapted, model=model)
    assert answer.status_code == 200
    assert answer.json()["model"] == shown
    assert requests[-1].adapters == used
    native = adapted.client.post("/v1/chat", json={"prompt": "hello", "model": model})
    assert native.status_code == 200
    assert requests[-1].adapters == used
    assert requests[-1].messages
    raw = adapted.client.post("/v1/completions", json={"prompt": "hello", "model": model})
    assert raw.json()["model"] == shown
    assert requests[-1].adapters == used
    vectors = adapted.client.post("/v1/embeddings", json={"input": "hello", "model": model})
    assert vectors.json()["model"] == shown
    assert isinstance(requests[-1], EmbedRequest)
    assert requests[-1].adapters == used


def test_nobody_changes_the_adapters_of_all_answers(adapted: Running) -> None:
    before = adapted.client.get("/lora-adapters").json()
    answer = adapted.client.post("/lora-adapters", json=[{"id": 0, "scale": 0.0}])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "not_supported"
    assert 'send "lora": [{"id": 0, "scale": 0.5}] with each request' in answer.json()["error"]["message"]
    assert adapted.client.get("/lora-adapters").json() == before


def test_an_adapter_that_nobody_has_is_no_model(adapted: Running) -> None:
    for model in ("summ", "plain:Sum", ":Sum", "llm:"):
        assert chat(adapted, model=model).status_code == 404


def test_the_field_lora_chooses_any_mixture(adapted: Running) -> None:
    requests = asked_of(adapted, "llm")
    for lora, used in (
        ([{"id": 1, "scale": 0.25}, {"id": 0, "scale": 0}], (("adapter1", 0.25), ("adapter0", 0.0))),
        ([{"id": 2}], (("adapter2", 1.0),)),
        ([], ()),
        (None, None),
    ):
        assert chat(adapted, lora=lora).status_code == 200
        assert requests[-1].adapters == used
    assert chat(adapted, model="Sum", lora=[]).json()["model"] == "Sum"
    assert requests[-1].adapters == (), "the field wins"


@each(
    ("body", "param"),
    [
        ({"lora": [{"id": 3}]}, "lora[0].id"),
        ({"lora": [{"id": 0}, {"id": -1}]}, "lora[1].id"),
        ({"lora": [{"id": 0, "scale": 1e9}]}, "lora[0].scale"),
        ({"lora": {"id": 0}}, "lora"),
        ({"lora": [{"id": 0}], "model": "plain"}, "lora[0].id"),
    ],
)
def test_an_unfit_field_is_refused(adapted: Running, body: dict[str, Any], param: str) -> None:
    answer = chat(adapted, **body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_the_lists_name_them_and_no_folder(adapted: Running) -> None:
    listed = {one["id"]: one.get("parent") for one in adapted.client.get("/v1/models").json()["data"]}
    assert listed == {"base": None, "plain": None, "twin": None, "Sum": "base", "tone": "base"}
    assert adapted.client.get("/v1/models/Sum").json()["id"] == "Sum"
    answer = adapted.client.get("/lora-adapters")
    assert answer.json() == [
        {"id": 0, "path": "adapter0.gguf", "scale": 0.5, "name": ""},
        {"id": 1, "path": "adapter1.gguf", "scale": 0.0, "name": "Sum"},
        {"id": 2, "path": "adapter2.gguf", "scale": 0.0, "name": "tone"},
    ]
    assert "/home/ada" not in answer.text
    assert adapted.client.get("/lora-adapters?model=plain").json() == []
    assert adapted.client.get("/lora-adapters?model=nobody").status_code == 404
