"""Live transcription over HTTP, on the fake engine, which hears one word a second."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.gates import FAKES, Held, engine_of, fake_spec
from support.raw import dialled
from support.server import Running, build, considerate_governor, fake_pool, serving, until
from support.sound import silence, speech
from support.sounds import FORMS, encoded, melody
from websockets.sync.client import connect

from edgeserve.api import json_body
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.live.session import PATIENCE_SECONDS
from edgeserve.residency.directory import Terms
from edgeserve.residency.pool import Pool

LOAD = b'POST /memory/preload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 18\r\n\r\n{"engines": "asr"}'


def error(answer: httpx.Response, status: int) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


@pytest.fixture
def live() -> Iterator[Running]:
    with serving(fake_pool(["asr"]), live_sessions=16) as running:
        yield running


def begin(client: httpx.Client, **options: Any) -> str:
    answer = client.post("/v1/transcribe/stream", json=options or None)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["status"] == "started"
    return str(body["session"])


def push(client: httpx.Client, data: bytes, session: str | None = None) -> Any:
    headers = {"X-Session-Id": session} if session else {}
    answer = client.post("/v1/transcribe/push", content=data, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def flush(client: httpx.Client, session: str | None = None) -> Any:
    answer = client.post("/v1/transcribe/flush", params={"session": session} if session else None)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_start_push_and_flush(live: Running) -> None:
    client = live.client
    session = begin(client, language="en", prompt="Names: Ada.")
    texts = []
    for _ in range(4):
        step = push(client, speech(1), session)
        assert set(step) == {"session", "text", "is_final", "transcript", "partial"}
        texts.append(step["text"])
        assert step["transcript"] == "".join(texts)
    last = flush(client, session)
    assert last["is_final"] is True
    assert last["transcript"] == "".join(texts) + last["text"] == "1 2 3 4"
    assert last["duration"] == 4.0
    assert error(client.post(f"/v1/transcribe/flush?session={session}"), 404)["param"] == "session"


def test_an_utterance_is_final_after_a_pause(live: Running) -> None:
    client = live.client
    steps = [push(client, speech(2)), push(client, silence(1))]  # the last may be final already

    def ended() -> bool:
        if not steps[-1]["is_final"]:
            steps.append(push(client, b""))
        return bool(steps[-1]["is_final"])

    until(ended)
    assert steps[-1]["transcript"] == "".join(step["text"] for step in steps) == "1 2"
    assert flush(client)["transcript"] == "1 2"
    assert flush(client) == {
        "session": "default",
        "text": "",
        "is_final": True,
        "transcript": "",
        "partial": "",
        "duration": 0.0,
    }


@pytest.mark.slow
def test_eight_at_once_do_not_mix(live: Running) -> None:
    def talk(seconds: int) -> str:
        session = begin(live.client)
        for _ in range(seconds):
            push(live.client, speech(1), session)
        return str(flush(live.client, session)["transcript"])

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        told = list(threads.map(talk, range(1, 9)))
    assert told == [" ".join(map(str, range(1, count + 1))) for count in range(1, 9)]
    assert len(live.app.state.sessions) == 0
    assert live.pool.gates["asr"].leases == 0


def test_one_too_many_is_busy_and_a_deleted_one_makes_room(live: Running) -> None:
    names = [begin(live.client) for _ in range(8)]
    refused = live.client.post("/v1/transcribe/stream")
    assert "8 live transcriptions of yours are open" in error(refused, 503)["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert error(live.client.post("/v1/transcribe/push", content=speech(1)), 503)["code"] == "queue_full"
    assert live.client.delete(f"/v1/transcribe/stream/{names[0]}").json() == {"session": names[0], "status": "deleted"}
    begin(live.client)
    assert error(live.client.delete(f"/v1/transcribe/stream/{names[0]}"), 404)["code"] == "not_found"


@pytest.mark.slow
def test_an_idle_one_expires() -> None:
    with serving(fake_pool(["asr"]), live_idle_seconds=0.2) as running:
        session = begin(running.client)
        sessions = running.app.state.sessions
        until(lambda: len(sessions) == 0)
        answer = running.client.post("/v1/transcribe/push", content=speech(1), headers={"X-Session-Id": session})
        assert "not used for 0.2 s" in error(answer, 404)["message"]


def test_the_engine_is_free_between_hypotheses(live: Running) -> None:
    push(live.client, speech(2))
    until(lambda: push(live.client, b"")["partial"] == "1 2")
    until(lambda: live.pool.gates["asr"].leases == 0)
    assert live.client.post("/memory/evict/asr").status_code == 200
    assert flush(live.client)["transcript"] == "1 2"


@pytest.mark.parametrize(
    ("request_", "status", "param", "text"),
    [
        ({"content": bytes(10)}, 400, None, "10 bytes"),
        ({"content": b"RIFF" + bytes(40)}, 415, None, "raw samples"),
        ({"content": bytes(641_000 * 4)}, 413, None, "at most 10 s"),
        ({"content": b"", "params": {"sesion": "x"}}, 400, "sesion", "known are: session"),
        ({"content": b"", "params": {"session": "x"}, "headers": {"X-Session-Id": "y"}}, 400, "session", "different"),
        ({"content": b"", "params": {"session": "x"}}, 404, "session", "no live transcription 'x'"),
    ],
)
def test_wrong_pushes_are_told(live: Running, request_: Any, status: int, param: str | None, text: str) -> None:
    told = error(live.client.post("/v1/transcribe/push", **request_), status)
    assert (told["param"], text in told["message"]) == (param, True), told


@pytest.mark.parametrize(
    ("body", "param"),
    [({"lang": "en"}, "lang"), ({"language": 5}, "language"), ({"prompt": "x" * 5000}, "prompt"), ([], None)],
)
def test_wrong_options_are_told(live: Running, body: Any, param: str | None) -> None:
    assert error(live.client.post("/v1/transcribe/stream", json=body), 400)["param"] == param
    assert len(live.app.state.sessions) == 0


def test_a_language_that_the_model_lacks_is_refused_before_anything_is_loaded() -> None:
    wav = encoded(melody(1), FORMS["wav"])
    with serving(fake_pool(["asr"], languages=["en", "de"])) as running:
        client = running.client
        for path, body in (
            ("/v1/transcribe/stream", {"json": {"language": "tlh"}}),
            ("/v1/transcribe/file", {"files": {"audio": wav}, "data": {"language": "tlh"}}),
            ("/v1/audio/transcriptions", {"files": {"file": wav}, "data": {"language": "tlh"}}),
        ):
            told = error(client.post(path, **body), 400)  # type: ignore[arg-type]
            assert (told["message"], told["param"]) == ("unknown language 'tlh'; this model knows de, en", "language")
        assert len(running.app.state.sessions) == 0
        engine: Any = engine_of(running.pool.gates["asr"])
        assert engine.steps == []
        assert begin(client, language="de")
        assert begin(client, language="")


def test_without_an_engine_no_session_begins() -> None:
    with serving(fake_pool(["llm"])) as running:
        told = error(running.client.post("/v1/transcribe/stream"), 404)
        assert told["code"] == "engine_not_configured"


def test_a_failing_engine_is_told_and_the_session_goes_on(live: Running) -> None:
    engine: Any = engine_of(live.pool.gates["asr"])

    def fail(request: Any, cancel: Any) -> Iterator[Any]:
        raise RuntimeError("as arranged")
        yield

    engine.transcribe = fail
    push(live.client, speech(2))
    answers: list[httpx.Response] = []

    def failed() -> bool:
        answers.append(live.client.post("/v1/transcribe/push", content=b""))
        return answers[-1].status_code != 200

    until(failed)
    assert error(answers[-1], 500)["code"] == "engine_failure"
    del engine.transcribe
    assert flush(live.client)["transcript"] == "1 2"


def test_two_clients_that_name_no_session_do_not_hear_each_other() -> None:
    async def run() -> None:
        pool = fake_pool(["asr"])
        app = build(pool)
        await pool.ahead.start()

        def client(address: str) -> httpx.AsyncClient:
            transport = httpx.ASGITransport(app, client=(address, 1))
            return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/v1/transcribe")

        async with client("192.0.2.7") as ada, client("192.0.2.8") as bob, client("::ffff:192.0.2.7") as also_ada:
            assert (await ada.post("/push", content=speech(2))).json()["session"] == "default"
            assert (await bob.post("/flush")).json()["transcript"] == ""
            named = (await ada.post("/stream")).json()["session"]
            for answer in (
                await bob.post("/push", content=speech(1), headers={"X-Session-Id": named}),
                await bob.post(f"/flush?session={named}"),
                await bob.delete(f"/stream/{named}"),
            ):
                assert error(answer, 404)["param"] == "session"
            assert (await also_ada.delete(f"/stream/{named}")).status_code == 200
            assert (await also_ada.post("/flush")).json()["transcript"] == "1 2"
        app.state.sessions.close()
        await pool.stop()

    asyncio.run(run())


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded"])
def test_a_client_behind_a_proxy_must_name_the_session(live: Running, header: str) -> None:
    client, through = live.client, {header: "192.0.2.9"}
    push(client, speech(2))
    for answer in (
        client.post("/v1/transcribe/push", content=b"", headers=through),
        client.post("/v1/transcribe/push", content=b"", headers=through | {"X-Session-Id": "default"}),
        client.post("/v1/transcribe/flush", headers=through),
        client.delete("/v1/transcribe/stream/default", headers=through),
    ):
        told = error(answer, 400)
        assert (told["param"], told["message"].startswith("session is required behind a proxy")) == ("session", True)
    named = client.post("/v1/transcribe/stream", headers=through).json()["session"]
    client.post("/v1/transcribe/push", content=speech(1), headers=through | {"X-Session-Id": named})
    assert client.post(f"/v1/transcribe/flush?session={named}", headers=through).json()["transcript"] == "1"
    assert flush(client)["transcript"] == "1 2", "nobody becomes another by a header"


def test_long_options_are_read_beside_the_event_loop(live: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 KB of small values take 8 ms, and any number of clients may send them at once."""
    threads: list[str] = []
    read = json_body.read_object

    def noted(data: bytes, name: str = "the body") -> Any:
        threads.append(threading.current_thread().name)
        return read(data, name)

    monkeypatch.setattr(json_body, "read_object", noted)
    body = b'{"none": [' + b"[]," * 20_000 + b"1]}"
    assert error(live.client.post("/v1/transcribe/stream", content=body), 400)["param"] == "none"
    assert threads[0].startswith("edgeserve the reading of bodies")


@pytest.mark.parametrize("path", ["push", "flush"])
def test_a_client_that_leaves_waits_no_longer(live: Running, path: str) -> None:
    """Others of the same address would find no place among the connections."""
    held = Held(engine_of(live.pool.gates["asr"]))
    for _ in range(3):
        push(live.client, speech(9.9))
    until(lambda: not live.server.server_state.tasks)
    with dialled(live) as link:
        sound = speech(9.9) if path == "push" else b""
        head = f"POST /v1/transcribe/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(sound)}\r\n\r\n"
        link.sendall(head.encode() + sound)
        (session,) = live.app.state.sessions._open.values()
        until(lambda: session._taking.locked() if sound else session._flushing)
    until(lambda: not live.server.server_state.tasks, PATIENCE_SECONDS / 2)
    assert not session._flushing
    assert len(live.app.state.sessions) == 1
    held.go.set()


def test_a_client_that_leaves_while_it_loads_waits_no_longer(live: Running) -> None:
    """Another who asks for the same load still gets it."""
    held = Held(engine_of(live.pool.gates["asr"]))
    with concurrent.futures.ThreadPoolExecutor() as others, dialled(live) as link:
        link.sendall(LOAD)
        assert held.entered.wait(10)
        other = others.submit(live.client.post, "/memory/preload", json={"engines": ["asr"]})
        until(lambda: len(live.server.server_state.tasks) == 2)
        link.close()
        until(lambda: len(live.server.server_state.tasks) == 1)
        held.go.set()
        assert other.result(10).json() == {"results": {"asr:fake-asr": True}}


def test_a_session_of_a_model_that_serves_by_name_alone_hears() -> None:
    governor = considerate_governor()
    spec = dataclasses.replace(fake_spec("asr"), id="shelved", name="shelved")
    pool = Pool([ThreadHost(FAKES["asr"](spec), governor)], governor, terms={"shelved": Terms(by_name=True)})
    with serving(pool) as running:
        client = running.client
        session = begin(client, model="shelved")
        push(client, speech(2), session)
        assert flush(client, session)["transcript"]
        answer = client.post("/v1/transcribe/push", content=speech(1))
        assert "no asr engine is configured" in error(answer, 404)["message"]
        with connect(f"{running.url.replace('http', 'ws')}/v1/transcribe/live?model=shelved") as socket:
            assert json.loads(socket.recv(30))["type"] == "started"
