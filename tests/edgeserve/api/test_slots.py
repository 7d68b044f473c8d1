"""/slots: what is listed, what may be done, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.answers import error
from support.gates import BATCHING_FAKES
from support.server import Running, fake_pool, serving, until

from edgeserve.api import auth


@pytest.fixture
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm"], fakes=BATCHING_FAKES, slots=2)) as running:
        yield running


def slots(client: httpx.Client) -> list[tuple[int, bool]]:
    return [(one["n_tokens"], one["is_processing"]) for one in client.get("/slots").json()]


def say(client: httpx.Client, words: str) -> None:
    assert client.post("/v1/chat", json={"prompt": words}).status_code == 200


def test_looking_at_slots_loads_nothing(running: Running) -> None:
    listed = running.client.get("/slots").json()
    assert listed == [
        {
            "id": number,
            "model": "fake-llm",
            "n_ctx": None,
            "n_tokens": 0,
            "is_processing": False,
            "speculative": False,
            "n_draft": 0,
            "n_draft_accepted": 0,
        }
        for number in range(2)
    ]
    assert running.client.get("/v1/health").json()["rungs"]["llm"] != "hot"


def test_the_health_check_counts_the_guessed_tokens_of_loaded_models(running: Running) -> None:
    assert running.client.get("/v1/health").json()["drafts"] == {}
    say(running.client, "one two three")
    until(lambda: running.client.get("/v1/health").json()["drafts"] == {"llm": {"drafted": 0, "accepted": 0}})


def test_a_slot_is_saved_restored_and_erased(running: Running) -> None:
    client = running.client
    say(client, "one two three")
    until(lambda: slots(client) == [(3, False), (0, False)])
    saved = client.post("/slots/0?action=save", json={"filename": "a.bin"}).json()
    assert saved.pop("timings")["save_ms"] >= 0
    assert saved == {"id_slot": 0, "filename": "a.bin", "n_saved": 3, "n_written": 12}
    assert client.post("/slots/0?action=erase").json() == {"id_slot": 0, "n_erased": 3}
    restored = client.post("/slots/1?action=restore", json={"filename": "a.bin"}).json()
    assert restored.pop("timings")["restore_ms"] >= 0
    assert restored == {"id_slot": 1, "filename": "a.bin", "n_restored": 3, "n_read": 12}
    assert slots(client) == [(0, False), (3, False)]


def test_a_request_has_the_slot_of_its_choice(running: Running) -> None:
    client = running.client
    answer = client.post("/completion", json={"prompt": "one two three", "id_slot": 1}).json()
    assert answer["id_slot"] == 1
    until(lambda: slots(client) == [(0, False), (3, False)])
    assert client.post("/completion", json={"prompt": "one two"}).json()["id_slot"] == 0
    for path, body in (("/completion", {"prompt": "one"}), ("/v1/completions", {"prompt": "one", "model": "llm"})):
        refused = error(client.post(path, json=body | {"id_slot": 2}), 400)
        assert refused["message"] == "there are slots 0 to 1, and no slot 2"
        assert refused["param"] == "id_slot"


def test_a_client_erases_what_it_said_under_any_key_of_its_caches(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a body the request named no client, and was refused its own conversation."""
    seen: list[str] = []
    gate = running.pool.gates["llm"]
    submit = gate.submit

    def note(work: Any) -> None:
        seen.append(work.request.salt)
        submit(work)

    monkeypatch.setattr(gate, "submit", note)
    client = running.client
    assert client.post("/v1/chat", json={"prompt": "one", "prompt_cache_key": "mine"}).status_code == 200
    client.post("/slots/0?action=erase")
    client.post("/slots/0?action=erase", json={"prompt_cache_key": "other"})
    said, *erased = (one.partition("/")[0] for one in seen)
    assert said
    assert erased == [said, said]


def test_another_client_cannot_restore_it(running: Running) -> None:
    client = running.client
    say(client, "one two three")
    body = {"filename": "a.bin", "prompt_cache_key": "mine"}
    assert client.post("/slots/0?action=save", json=body).status_code == 200
    for other in ({"filename": "a.bin"}, {"filename": "a.bin", "prompt_cache_key": "other"}):
        assert "no saved slot" in error(client.post("/slots/1?action=restore", json=other), 404)["message"]
    assert client.post("/slots/1?action=restore", json=body).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("/slots/0", {"filename": "a"}, 400, "action"),
        ("/slots/0?action=copy", {"filename": "a"}, 400, "must be one of"),
        ("/slots/0?action=save&color=red", {"filename": "a"}, 400, "color"),
        ("/slots/0?action=save", {}, 400, "letters"),
        ("/slots/0?action=save", {"filename": ""}, 400, "letters"),
        ("/slots/0?action=save", {"filename": "../a"}, 400, "letters"),
        ("/slots/0?action=save", {"filename": "/etc/passwd"}, 400, "letters"),
        ("/slots/0?action=save", {"filename": ".hidden"}, 400, "letters"),
        ("/slots/0?action=save", {"filename": "a\x00b"}, 400, "letters"),
        ("/slots/0?action=save", {"filename": "a" * 101}, 400, "letters"),
        ("/slots/0?action=save", {"filename": "a\n"}, 400, "letters"),
        ("/slots/0?action=save", {"filename": "a", "more": 1}, 400, "not a known field"),
        ("/slots/x?action=save", {"filename": "a"}, 404, "no slot 'x'"),
        ("/slots/-1?action=save", {"filename": "a"}, 404, "no slot '-1'"),
        ("/slots/0?action=save&model=gpt-7", {"filename": "a"}, 404, "gpt-7"),
    ],
)
def test_a_wrong_request_is_refused(running: Running, path: str, body: dict[str, Any], status: int, told: str) -> None:
    say(running.client, "one")
    assert told in error(running.client.post(path, json=body), status)["message"]


def test_a_model_that_is_not_loaded_has_nothing_to_save(running: Running) -> None:
    for action in ("save", "erase"):
        answer = running.client.post(f"/slots/0?action={action}", json={"filename": "a"})
        assert "is not loaded" in error(answer, 400)["message"]
    assert running.client.get("/v1/health").json()["rungs"]["llm"] != "hot"


def test_a_balancer_learns_that_all_slots_are_busy() -> None:
    with serving(fake_pool(["llm"], fakes=BATCHING_FAKES, slots=1, delay=0.01, context=10**6)) as running:
        client = running.client
        assert client.get("/slots?fail_on_no_slot=1").status_code == 200
        with client.stream("POST", "/v1/chat/stream", json={"prompt": "word " * 5000}) as stream:
            lines = stream.iter_lines()  # kept: closing it would close the connection
            next(lines)
            answer = httpx.get(f"{running.url}/slots?fail_on_no_slot=1")
            assert error(answer, 503)["message"].endswith("are busy (1)")
            assert httpx.get(f"{running.url}/slots").json()[0]["is_processing"] is True


def test_other_machines_need_the_key(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "is_loopback", lambda host: False)
    assert "only programs of this machine" in error(running.client.get("/slots"), 403)["message"]
    answer = running.client.post("/slots/0?action=erase")
    assert "only programs of this machine" in error(answer, 403)["message"]
    with serving(fake_pool(["llm"], fakes=BATCHING_FAKES), api_key="sesame") as locked:
        assert locked.client.get("/slots").status_code == 401
        assert locked.client.get("/slots", headers={"Authorization": "Bearer sesame"}).status_code == 200


def test_a_device_without_a_chat_model_has_no_slots() -> None:
    with serving(fake_pool(["tts"])) as running:
        assert error(running.client.get("/slots"), 404)["code"] == "engine_not_configured"
