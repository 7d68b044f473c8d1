"""GET /metrics, read by prometheus_client's own parsers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from support.server import Running, fake_pool, serving, until

from edgeserve.figures.families import COUNTED, LLAMA, PREFIX, PROCESS, READ
from edgeserve.jobs import JOBS

SECRET = "a-text-of-a-client"
OPEN = "application/openmetrics-text"
MODEL = {"engine": "llm", "model": "llm"}


@pytest.fixture(scope="module")
def asked() -> Iterator[Running]:
    """A server that has answered some requests."""
    with serving(fake_pool((*JOBS, "rerank")), llamacpp_metrics=True) as running:
        client = running.client
        chat = {"messages": [{"role": "user", "content": f"{SECRET} one two three"}], "max_tokens": 3}
        for _ in range(2):
            assert client.post("/v1/chat/completions", json=chat).status_code == 200
        assert (
            client.post("/v1/audio/speech", json={"input": "good morning", "response_format": "wav"}).status_code == 200
        )
        assert client.post("/v1/embeddings", json={"input": "hello"}).status_code == 200
        assert client.post("/tokenize", json={"content": "hello"}).status_code == 200
        assert client.post("//v1/chat/completions/", json={"messages": SECRET}).status_code == 400
        assert client.get(f"/{SECRET}").status_code == 404
        assert client.request("DELETE", f"/v1/transcribe/stream/{SECRET}").status_code == 404
        assert client.put("/v1/chat").status_code == 405
        # A line of the count stands behind the last byte of its answer.
        until(lambda: value(client, "requests_total", route="/v1/chat", engine="", status="405") == 1)
        yield running


def scraped(client: httpx.Client) -> dict[str, Any]:
    """Families by name, as Prometheus' text form has them."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {one.name: one for one in text_string_to_metric_families(answer.text)}


def value(client: httpx.Client, name: str, /, **labels: str) -> float | None:
    """The value of one sample; None where there is none."""
    samples = [one for family in scraped(client).values() for one in family.samples if one.name == PREFIX + name]
    found = [one.value for one in samples if one.labels == labels]
    assert len(found) <= 1
    return found[0] if found else None


def test_every_family_of_the_table_is_there_and_no_other(asked: Running) -> None:
    found = {name: family.type for name, family in scraped(asked.client).items()}
    expected = {PREFIX + one.name: one.kind for one in (*COUNTED.values(), *READ.values())}
    expected |= {one.name: one.kind for one in (*PROCESS, *LLAMA)}
    assert found == {name.removesuffix("_total"): kind for name, kind in expected.items()}


@pytest.mark.slow
def test_labels_are_those_of_the_table(asked: Running) -> None:
    for one in (*COUNTED.values(), *READ.values()):
        for sample in scraped(asked.client)[PREFIX + one.name.removesuffix("_total")].samples:
            assert set(sample.labels) - {"le"} == set(one.labels)


def test_openmetrics_for_who_asks(asked: Running) -> None:
    answer = asked.client.get("/metrics", headers={"Accept": f"{OPEN}; version=1.0.0,text/plain;q=0.5"})
    assert answer.headers["content-type"].startswith(OPEN)
    names = {one.name for one in open_metrics(answer.text)}
    assert f"{PREFIX}generation_tokens" in names


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        ";;,=",
        "text/plain;q=x",
        "text/plain;version=;escaping=bogus",
        f"{OPEN};q=0",
        f"{OPEN};version=abc",
        f"{OPEN};version={'9' * 5000};escaping=",
    ],
)
def test_any_accept_is_answered(asked: Running, accept: str) -> None:
    assert asked.client.get("/metrics", headers={"Accept": accept}).status_code == 200


def test_no_text_of_a_client_is_a_label(asked: Running) -> None:
    assert SECRET not in asked.client.get("/metrics").text


def test_requests_by_route(asked: Running) -> None:
    client = asked.client
    assert value(client, "requests_total", route="/v1/chat/completions", engine="llm", status="200") == 2
    assert value(client, "requests_total", route="/v1/chat/completions", engine="", status="400") == 1
    assert value(client, "requests_total", route="/v1/audio/speech", engine="tts", status="200") == 1
    assert value(client, "requests_total", route="/v1/transcribe/stream/{session}", engine="", status="404") == 1
    assert value(client, "requests_total", route="other", engine="", status="404") == 1


def test_tokens_and_times_of_answers(asked: Running) -> None:
    client = asked.client
    assert value(client, "answers_total", **MODEL, end="length") == 2
    assert value(client, "generation_tokens_total", **MODEL) == 6
    assert value(client, "time_to_first_token_seconds_count", **MODEL) == 2
    assert value(client, "inter_token_seconds_count", **MODEL) == 4
    assert value(client, "request_duration_seconds_count", **MODEL) == 3  # the embedding, too
    assert value(client, "time_to_first_token_seconds_bucket", **MODEL, le="+Inf") == 2
    spoken = value(client, "audio_seconds_total", engine="tts", model="tts", direction="spoken")
    assert spoken is not None
    assert spoken > 0
    assert value(client, "real_time_factor_count", engine="tts", model="tts") == 1


def test_engines_and_memory(asked: Running) -> None:
    client = asked.client
    assert value(client, "engine_rung", **MODEL) == 2
    assert value(client, "requests_running", **MODEL) == value(client, "requests_waiting", **MODEL) == 0
    assert value(client, "model_info", **MODEL, name="fake-llm") == 1
    assert value(client, "transitions_total", **MODEL, **{"from": "warm", "to": "hot", "reason": "load"}) == 1
    budget = value(client, "memory_budget_bytes")
    assert budget is not None
    assert budget > 1 << 20
    process = scraped(client)["process_resident_memory_bytes"].samples[0].value
    assert process > 1 << 20


def test_names_of_llama_server_agree(asked: Running) -> None:
    found = {
        one.name: one.value for family in scraped(asked.client).values() for one in family.samples if not one.labels
    }
    assert found["llamacpp:tokens_predicted_total"] == 6
    assert found["llamacpp:prompt_tokens_total"] > 0
    assert found["llamacpp:requests_processing"] == found["llamacpp:requests_deferred"] == 0


def test_they_are_off_by_default_and_the_key_is_asked_for() -> None:
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        assert running.client.get("/metrics").status_code == 401
        answer = running.client.get("/metrics", headers={"Authorization": "Bearer sesame"})
        assert answer.status_code == 200
        assert "llamacpp:" not in answer.text
