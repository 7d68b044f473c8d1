"""The straight line where it breaks off: nothing to answer, cut in the middle, clients and memory that run out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import sys
import threading
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from support.gates import engine_of
from support.server import Running, build, fake_pool, serving, until

from edgeserve import clients
from edgeserve.api import line
from edgeserve.api.line import pinged
from edgeserve.api.openai.embeddings import EmbeddingList
from edgeserve.errors import EngineFailure
from edgeserve.messages import Event, TokenEvent
from edgeserve.residency.mailbox import LARGEST, Deliveries, Kept
from edgeserve.residency.weight import LOGPROB_BYTES


def failing_after(running: Running, job: Any, count: int) -> None:
    """The engine gives ``count`` events of its next answer and then fails."""
    engine: Any = engine_of(running.pool.gates[job])
    left = [count]

    def work() -> None:
        if engine.rung.name == "HOT" and not left[0]:
            raise EngineFailure("the runtime fell over")
        left[0] -= engine.rung.name == "HOT"

    engine.on_work = work


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/tts/synthesize", {"text": "..."}),
        ("/v1/audio/speech", {"input": "...", "stream_format": "sse"}),
        ("/v1/audio/speech", {"input": "...", "response_format": "pcm"}),
    ],
)
def test_a_text_without_a_word_is_refused(client: httpx.Client, path: str, body: dict[str, str]) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    assert "holds nothing that tts could answer" in answer.json()["error"]["message"]


def test_sound_that_breaks_off_is_not_taken_for_the_whole(caplog: pytest.LogCaptureFixture) -> None:
    with serving(fake_pool(["tts"])) as running:
        failing_after(running, "tts", 1)
        body = {"input": "One. Two. Three.", "response_format": "pcm"}
        with running.client.stream("POST", "/v1/audio/speech", json=body) as answer:
            assert answer.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
                answer.read()
        until(lambda: running.pool.gates["tts"].leases == 0)
    assert "the answer was cut short: the runtime fell over" in caplog.messages
    assert [one for one in caplog.records if one.name == "uvicorn.error" and one.levelno >= logging.WARNING] == []


def test_openai_streams_tell_a_failure_and_end() -> None:
    with serving(fake_pool(["llm"])) as running:
        failing_after(running, "llm", 2)
        body = {"messages": [{"role": "user", "content": "a b c d"}], "stream": True}
        lines = [line for line in running.client.post("/v1/chat/completions", json=body).text.splitlines() if line]
        assert '"code":"engine_failure"' in lines[-2]
        assert lines[-1] == "data: [DONE]"
        until(lambda: running.pool.gates["llm"].leases == 0)


def test_a_client_that_goes_away_while_it_sends_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "edgeserve.access"), serving(fake_pool(["llm"])) as running:
        with connected(running) as client:
            client.sendall(b"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        until(lambda: "POST /v1/chat 499" in caplog.text)
        assert "unforeseen" not in caplog.text
        assert running.client.post("/v1/chat", json={"prompt": "on"}).json() == {"text": "on"}


def test_a_reader_that_stops_reading_holds_neither_memory_nor_the_engine() -> None:
    """The engine speaks far faster than the client reads. Once the mailbox is full, the engine serves others."""
    with serving(fake_pool(["tts"])) as running, connected(running) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        body = json.dumps({"input": "one. " * 3000, "response_format": "pcm"}).encode()
        slow.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        slow.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        gate = running.pool.gates["tts"]
        until(lambda: gate.host.stuck)
        assert running.pool.deliveries.held <= LARGEST + 10_000
        for _ in range(3):
            assert running.client.post("/v1/tts/synthesize", json={"text": "hello"}).status_code == 200
        slow.close()
        until(lambda: gate.leases == 0)
        until(lambda: running.pool.deliveries.held == 0)


def test_a_whole_answer_is_counted_until_it_is_read() -> None:
    with serving(fake_pool(["tts"])) as running, connected(running) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        body = json.dumps({"text": "word. " * 250}).encode()
        slow.sendall(b"POST /v1/tts/synthesize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
        slow.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        slow.settimeout(30)
        head = slow.recv(1000)
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        assert size > 1_000_000
        assert running.pool.deliveries.held >= size
        read = len(head.partition(b"\r\n\r\n")[2])
        while part := slow.recv(1 << 20):
            read += len(part)
        assert read == size
        until(lambda: running.pool.deliveries.held == 0)


@pytest.mark.parametrize("character", ["a", "é", "\U0001f600"])
def test_the_part_of_a_whole_answer_that_repeats_its_request_is_counted(character: str) -> None:
    """Documents of 16 MB became answers of 48 MB, which nobody counted while their clients read slowly."""
    with serving(fake_pool(["rerank"])) as running, connected(running) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        body = json.dumps({"query": "a", "documents": [character * 300_000] * 4}).encode()
        slow.sendall(b"POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
        slow.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        slow.settimeout(30)
        head = slow.recv(1000)
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        assert size > 1_000_000
        assert size <= running.pool.deliveries.held < size + 10_000
        while slow.recv(1 << 20):
            pass
        until(lambda: running.pool.deliveries.held == 0)


def test_log_probabilities_that_a_stream_keeps_are_counted_until_its_end() -> None:
    go = threading.Event()
    with serving(fake_pool(["llm"])) as running, contextlib.ExitStack() as held:
        held.callback(go.set)
        engine: Any = engine_of(running.pool.gates["llm"])
        left = iter([True] * 20)
        engine.on_work = lambda: next(left, False) or go.wait(10)
        body = {"input": "word " * 40, "stream": True, "include": ["message.output_text.logprobs"], "top_logprobs": 20}
        with running.client.stream("POST", "/v1/responses", json=body) as answer:
            until(lambda: running.pool.deliveries.held >= 10 * 20 * LOGPROB_BYTES)
            go.set()
            assert "response.completed" in answer.read().decode()
        until(lambda: running.pool.deliveries.held == 0)


class Quiet:
    """A renderer and a lease without work."""

    stream, media_type = True, "text/plain"

    async def release(self) -> None: ...

    def feed(self, index: int, event: Event) -> bytes:
        return b"x"

    def end(self) -> bytes:
        return b"."


@pytest.mark.parametrize("tokens", [1, 100])
def test_a_stream_makes_no_generator_for_each_token(tokens: int) -> None:
    """It would cost a tenth of the whole way of a token."""
    made: list[str] = []

    async def events() -> AsyncGenerator[tuple[int, Event], None]:
        for _ in range(tokens):
            yield 0, TokenEvent("word")

    async def scene() -> bytes:
        quiet: Any = Quiet()
        sys.set_asyncgen_hooks(firstiter=lambda one: made.append(one.__name__))
        folded = line._folded(line.Call("llm", [], quiet), (0, TokenEvent("first")), events(), None)
        return b"".join([part async for part in folded])

    assert asyncio.run(scene()) == b"x" * (1 + tokens) + b"."
    assert sorted(made) == ["_folded", "events"]


def test_a_long_part_of_a_stream_goes_out_in_pieces() -> None:
    """The connection takes any size at once, and would hold it for a reader that is slow."""
    sent: list[bytes] = []

    async def parts() -> AsyncGenerator[bytes, None]:
        yield b"x" * 300_000

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def scene() -> None:
        quiet: Any = Quiet()
        answer = line._Stream(quiet, b"y", parts(), quiet, b"", Kept(Deliveries()))
        await answer({"type": "http"}, asyncio.Event().wait, send)  # type: ignore[arg-type]  # nothing comes

    asyncio.run(scene())
    assert b"".join(sent) == b"y" + b"x" * 300_000
    assert max(map(len, sent)) == line.SENT_BYTES


def test_a_client_that_leaves_the_queue_frees_its_place() -> None:
    go = threading.Event()
    with serving(fake_pool(["llm"], queue_limit=1)) as running, contextlib.ExitStack() as held:
        held.callback(go.set)
        gate = running.pool.gates["llm"]
        engine: Any = engine_of(gate)
        engine.on_work = lambda: go.wait(10)
        body = b'{"prompt": "word"}'
        head = b"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        clients = [held.enter_context(connected(running)) for _ in range(2)]
        for number, client in enumerate(clients):
            client.sendall(head % len(body) + body)
            until(lambda number=number: len(gate.work) == number + 1)
        first = gate.work[0]
        assert running.client.post("/v1/chat", json={"prompt": "one too many"}).status_code == 503
        clients[1].close()
        until(lambda: len(gate.work) == 1)
        assert gate.work == (first,), "the one that waited has gone"
        go.set()
        assert running.client.post("/v1/chat", json={"prompt": "on"}).json() == {"text": "on"}


def end_thread() -> None:
    raise SystemExit


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_engine_that_lost_its_thread_is_reported() -> None:
    with serving(fake_pool(["llm", "tts"])) as running:
        assert running.client.get("/v1/health").json()["failing"] == []
        gate = running.pool.gates["llm"]
        gate.host.call(end_thread)
        until(lambda: not gate.host.healthy)
        answer = running.client.get("/v1/health")
        assert answer.status_code == 503
        assert (answer.json()["status"], answer.json()["failing"]) == ("failing", ["llm"])


def connected(running: Running) -> socket.socket:
    host, port = running.url.rstrip("/").removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def test_a_ping_comes_for_each_pause_and_none_without() -> None:
    async def pauses() -> None:
        go = asyncio.Event()

        async def parts() -> AsyncGenerator[bytes, None]:
            yield b"one"
            await go.wait()
            yield b"two"

        found = []
        async for part in pinged(parts(), b"ping", 0.001):
            found.append(part)
            if found.count(b"ping") == 2:
                go.set()
        assert found == [b"one", b"ping", b"ping", b"two"]
        assert [one async for one in pinged(parts(), b"ping", 60)] == [b"one", b"two"]

    asyncio.run(pauses())


def test_the_parts_end_with_their_reader_and_their_error_is_its_own() -> None:
    ended = []

    async def parts(error: Exception | None = None) -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            if error:
                raise error
            await asyncio.Event().wait()
        finally:
            ended.append(error)

    async def reads() -> None:
        async with contextlib.aclosing(pinged(parts(), b"ping", 0.001)) as found:
            assert [await anext(found), await anext(found)] == [b"one", b"ping"]
        assert ended == [None]
        failure = EngineFailure("the runtime fell over")
        with pytest.raises(EngineFailure):
            async for _ in pinged(parts(failure), b"ping", 60):
                pass
        assert ended == [None, failure]

    asyncio.run(reads())


def test_a_stream_whose_parts_fail_to_end_gives_its_lease_back() -> None:
    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
        finally:
            raise RuntimeError("no end")

    async def gone(message: Any) -> None:
        raise OSError("the client has gone")

    async def stream() -> None:
        pool, folded = fake_pool(["llm"]), parts()
        begun, renderer = await anext(folded), EmbeddingList("llm")
        lease = await pool.lease("llm")
        answer = line._Stream(renderer, begun, folded, lease, b"", Kept(pool.deliveries, clients.NOBODY))
        with pytest.raises(RuntimeError, match="no end"):
            await answer({"type": "http"}, asyncio.Event().wait, gone)  # type: ignore[arg-type]
        assert pool.gates["llm"].leases == 0
        await pool.stop()

    asyncio.run(stream())


def test_long_answers_of_one_client_hold_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer that computes used to share few threads with all others, without turns."""
    began, go_on, feed = threading.Semaphore(0), threading.Event(), EmbeddingList.feed

    def slow(self: EmbeddingList, index: int, event: Any) -> bytes:
        if clients.current.get().address == "192.0.2.1":
            began.release()
            assert go_on.wait(60)
        return feed(self, index, event)

    monkeypatch.setattr(EmbeddingList, "feed", slow)
    pool = fake_pool(["embedding"], queue_limit=60)
    app = build(pool)

    async def ask(address: str) -> int:
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as one:
            return (await one.post("/v1/embeddings", json={"input": "one two"}, timeout=60)).status_code

    async def run() -> None:
        thread = asyncio.to_thread(lambda: all(began.acquire(timeout=60) for _ in range(4)))
        waiting = asyncio.create_task(thread)
        await asyncio.sleep(0)
        adas = [asyncio.create_task(ask("192.0.2.1")) for _ in range(50)]
        assert await waiting
        bob = asyncio.create_task(ask("192.0.2.2"))
        await asyncio.wait([bob], timeout=20)
        ended = [one.done() for one in (bob, *adas)]
        go_on.set()
        assert set(await asyncio.gather(bob, *adas)) == {200}
        await pool.stop()
        assert ended == [True] + [False] * 50

    asyncio.run(run())
