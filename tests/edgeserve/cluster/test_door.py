"""The door: requests, uploads, streams and WebSockets that pass, and the end of a node or of a client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, cast

import httpx
import pytest
from benchmarks.process import free_port
from support.asked import hears
from support.cases import each
from support.door import Leases, door
from support.server import Running, fake_pool, serving, until
from support.sounds import FORMS, encoded, melody
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from edgeserve import clients
from edgeserve.api.limits import Limits
from edgeserve.cluster import passing, passing_socket
from edgeserve.cluster.question import Question, read_question

CHAT = "/v1/chat/completions"


@pytest.fixture
def node() -> Iterator[Running]:
    with serving(fake_pool(["llm", "asr"])) as running:
        yield running


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=30) as made:
        yield made


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


@contextlib.contextmanager
def rude(behave: Callable[[socket.socket], None], got: list[bytes] | None = None) -> Iterator[str]:
    """A node that reads a request, behaves, and closes the connection. ``got``: the requests."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    request = connection.recv(1 << 16)
                    if got is not None:
                        got.append(request)
                    behave(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield "http://{}:{}".format(*listener.getsockname()[:2])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def begins(kind: str, body: bytes) -> Callable[[socket.socket], None]:
    """Sends the headers of a chunked answer and one chunk of it."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return lambda connection: connection.sendall(head + f"{len(body):x}\r\n".encode() + body + b"\r\n")


def test_requests_and_streams_pass(node: Running, client: httpx.Client) -> None:
    leases = Leases([node.url])
    with door(leases) as url:
        answer = client.post(url + CHAT, json=says("good morning", model="fake-llm"))
        assert answer.json()["choices"][0]["message"]["content"] == "good morning"
        assert client.get(f"{url}/v1/models?limit=1").status_code == 200
        assert client.post(f"{url}/v1/nothing", json={}).status_code == 404
        with client.stream("POST", url + CHAT, json=says("one two", stream=True)) as stream:
            events = [line for line in stream.iter_lines() if line]
        assert events[-1] == "data: [DONE]"
        until(lambda: leases.open == 0)
    assert leases.asked[0].names == ("fake-llm",)
    assert len(leases.asked[0].conversation) == 1


@pytest.mark.slow
def test_a_long_upload_passes_as_it_comes(node: Running, client: httpx.Client) -> None:
    """The sound is longer than the beginning that the door reads."""
    sound = encoded(melody(4, 44_100), FORMS["wav"])
    assert len(sound) > 128 << 10
    leases = Leases([node.url])
    with door(leases) as url:
        form = {"data": {"model": "fake-asr"}, "files": {"file": ("a.wav", sound)}}
        there = client.post(f"{node.url.rstrip('/')}/v1/audio/transcriptions", **form)
        here = client.post(f"{url}/v1/audio/transcriptions", **form)
    assert (here.status_code, here.text) == (200, there.text)
    assert leases.asked[0].names == ("fake-asr",)


def test_a_websocket_passes_in_both_directions(node: Running) -> None:
    leases = Leases([node.url])
    with door(leases) as url, connect(f"{url.replace('http', 'ws', 1)}/v1/transcribe/live") as live:
        assert hears(live) == "1 2"
        live.send(json.dumps({"type": "close"}))
        with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012 - news of the text may come before it
            while True:
                assert json.loads(live.recv(10))["type"] == "text"
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000
    until(lambda: leases.open == 0)
    assert leases.asked[0].jobs == ("asr",)


@pytest.mark.slow
def test_a_client_that_goes_ends_its_answer_at_the_node(client: httpx.Client) -> None:
    pool = fake_pool(["llm"], delay=0.02, context=10**6)
    with serving(pool) as running, door(leases := Leases([running.url])) as url:
        with client.stream("POST", url + CHAT, json=says("word " * 5000, stream=True)) as stream:
            lines = stream.iter_lines()
            next(lines)
            assert (pool.gates["llm"].leases, leases.open) == (1, 1)
        until(lambda: (pool.gates["llm"].leases, leases.open) == (0, 0), 30)


@pytest.mark.slow
def test_a_client_that_goes_before_the_answer_begins_ends_it_too(client: httpx.Client) -> None:
    pool = fake_pool(["llm"], delay=0.02, context=10**6)
    with serving(pool) as running, door(leases := Leases([running.url])) as url:
        with pytest.raises(httpx.ReadTimeout):
            client.post(url + CHAT, json=says("word " * 5000), timeout=0.5)
        until(lambda: (pool.gates["llm"].leases, leases.open) == (0, 0), 30)


def test_a_client_that_goes_behind_its_upload_ends_the_answer_too() -> None:
    came, over = threading.Event(), threading.Event()
    upload = httpx.Request("POST", "http://box/v1/audio/transcriptions", files={"file": ("a.wav", bytes(1 << 18))})
    lines = [f"POST {upload.url.path} HTTP/1.1", *(f"{name}: {value}" for name, value in upload.headers.items())]
    sent = "\r\n".join([*lines, "", ""]).encode() + upload.read()

    def listens(connection: socket.socket) -> None:
        tail = b""
        while part := connection.recv(1 << 16):
            tail = (tail + part)[-20:]
            if tail == sent[-20:]:
                came.set()
        over.set()

    with rude(listens) as node, door(leases := Leases([node])) as url:
        with asking(url, sent):
            assert came.wait(30)
        assert over.wait(30)
        until(lambda: leases.open == 0, 30)


def test_a_websocket_whose_client_goes_ends_at_the_node(node: Running) -> None:
    with door(leases := Leases([node.url])) as url:
        with connect(f"{url.replace('http', 'ws', 1)}/v1/transcribe/live") as live:
            assert json.loads(live.recv(10))["type"] == "started"
            live.socket.shutdown(socket.SHUT_RDWR)
        until(lambda: leases.open == 0, 30)
        until(lambda: len(node.app.state.sessions) == 0, 30)


def test_another_node_answers_where_the_first_is_gone(node: Running, client: httpx.Client) -> None:
    leases = Leases([f"http://127.0.0.1:{free_port()}", node.url])
    with door(leases) as url:
        answer = client.post(url + CHAT, json=says("good morning"))
    assert answer.json()["choices"][0]["message"]["content"] == "good morning"
    assert (len(leases.asked), leases.open) == (2, 0)


def test_another_node_answers_where_the_first_dies_before_its_answer(node: Running, client: httpx.Client) -> None:
    with rude(lambda connection: None) as dying, door(Leases([dying, node.url])) as url:
        answer = client.post(url + CHAT, json=says("good morning"))
    assert answer.json()["choices"][0]["message"]["content"] == "good morning"


def test_where_every_node_is_gone_the_error_says_so(client: httpx.Client) -> None:
    leases = Leases([f"http://127.0.0.1:{free_port()}"])
    with door(leases) as url:
        answer = client.post(url + CHAT, json=says("good morning"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "node_lost")
    assert (len(leases.asked), leases.open) == (3, 0)


@pytest.mark.parametrize(
    ("kind", "piece", "last"),
    [
        ("text/event-stream", b'data: {"a": 1}\n\n', '"code": "node_lost"'),
        ("application/x-ndjson", b'{"a": 1}\n', '{"error": "the node was lost'),
    ],
)
def test_a_stream_of_a_dying_node_ends_with_an_error(kind: str, piece: bytes, last: str, client: httpx.Client) -> None:
    with rude(begins(kind, piece)) as dying, door(leases := Leases([dying])) as url:
        answer = client.post(url + CHAT, json=says("good morning", stream=True))
        assert answer.text.startswith(piece.decode())
        assert last in answer.text
        until(lambda: leases.open == 0)


def test_another_answer_of_a_dying_node_breaks_off(client: httpx.Client) -> None:
    """A part of a sound or of JSON must not look like the whole."""
    with rude(begins("audio/wav", b"RIFF")) as dying, door(Leases([dying])) as url, pytest.raises(httpx.TransportError):
        client.post(f"{url}/v1/audio/speech", json={"input": "hello"})


@each(("interim", "status"), [(8, 200), (9, 502)])
def test_interim_answers_of_a_node_have_a_bound(interim: int, status: int, client: httpx.Client) -> None:
    """One node that sent nothing else made each request to the others wait for half a second."""
    sent = b"HTTP/1.1 102 Processing\r\n\r\n" * interim + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with rude(lambda connection: connection.sendall(sent)) as node, door(Leases([node])) as url:
        assert client.post(url + CHAT, json=says("hi")).status_code == status


def test_pieces_at_hand_let_other_clients_have_their_turn() -> None:
    """Each answer held the loop for 64 KB: beside 60 of them, the request of another client took 9.7 s."""

    class Answer:
        headers: Mapping[str, str] = {}

        async def aiter_raw(self) -> AsyncIterator[bytes]:
            for _ in range(500):
                yield b"data: x\n\n"

    async def run() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async def send(message: Any) -> None:
            """The client reads as fast as it can."""

        beside = asyncio.create_task(other())
        await passing._pieces(cast("httpx.Response", Answer()), send)
        beside.cancel()
        return turns

    assert asyncio.run(run()) >= 500


def refused(url: str, path: str) -> tuple[int, str]:
    """Status and code of a refused WebSocket."""
    with pytest.raises(InvalidStatus) as caught:
        connect(url.replace("http", "ws", 1) + path)
    response = caught.value.response
    return response.status_code, json.loads(response.body)["error"]["code"]


def test_no_node_is_503(client: httpx.Client) -> None:
    with door(Leases([])) as url:
        answer = client.post(url + CHAT, json=says("good morning"))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "7")
        assert answer.json()["error"]["code"] == "queue_full"
        assert refused(url, "/v1/realtime") == (503, "queue_full")


def test_the_refusal_of_a_websocket_passes() -> None:
    with serving(fake_pool(["asr"]), api_key="secret") as running, door(leases := Leases([running.url])) as url:
        assert refused(url, "/v1/transcribe/live")[0] == 401
        until(lambda: leases.open == 0)
    with door(Leases([f"http://127.0.0.1:{free_port()}"])) as url:
        assert refused(url, "/v1/realtime") == (502, "node_lost")


def test_the_key_passes_to_the_node_and_guards_the_status(client: httpx.Client) -> None:
    with serving(fake_pool(["llm"]), api_key="secret") as running, door(Leases([running.url]), key="secret") as url:
        assert client.post(url + CHAT, json=says("good morning")).status_code == 401
        assert client.get(f"{url}/cluster/status").status_code == 401
        client.headers["Authorization"] = "Bearer secret"
        assert client.post(url + CHAT, json=says("good morning")).status_code == 200
        assert client.get(f"{url}//cluster/status").json() == {"pressure": "LOW", "nodes": []}


def test_routes_that_change_one_node_are_refused(client: httpx.Client) -> None:
    leases = Leases([])
    with door(leases) as url:
        for path in ("/admin/load", "//admin/load"):
            answer = client.post(url + path, json={"model": "llm"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ask_the_node")
    assert leases.asked == []


@each("path", ["/x/../admin/load", "/./admin/load", "/x/%2e%2e/admin/load", "{other}/x", "*", "/x#y", "/x?y#z"])
@each("upgrade", ["", "Upgrade: websocket\r\nConnection: Upgrade\r\n"])
def test_a_path_that_leads_elsewhere_is_refused(path: str, upgrade: str) -> None:
    """``@host`` behind the address of a node would name another machine, and get the client's key. ``#`` was 500."""
    with socket.create_server(("127.0.0.1", 0)) as there:
        host, port = there.getsockname()[:2]
        with door(leases := Leases([f"http://{host}:{port}"])) as url:
            words = f"GET {path.format(other=f'@{host}:{port}')} HTTP/1.1\r\nHost: x\r\n{upgrade}"
            words += f"Sec-WebSocket-Key: {'A' * 22}==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            address = httpx.URL(url)
            with socket.create_connection((address.host, address.port), timeout=30) as asked:
                asked.sendall(words.encode())
                assert asked.recv(1 << 10).startswith(b"HTTP/1.1 400 ")
    assert leases.asked == []


def test_a_websocket_keeps_its_path_as_it_was_written() -> None:
    """Decoded, the question mark would begin a query."""
    got: list[bytes] = []

    def behave(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    with rude(behave, got) as node, door(Leases([node])) as url, pytest.raises(InvalidStatus, match="404"):
        connect(f"{url.replace('http', 'ws', 1)}/v1/a%3Fb%20c?d=e")
    assert got[0].startswith(b"GET /v1/a%3Fb%20c?d=e HTTP/1.1\r\n")


def test_a_message_of_a_node_has_a_bound() -> None:
    def behave(socket: ServerConnection) -> None:
        socket.send("short")
        socket.send(bytes(passing_socket.LONGEST + 1))

    with serve(behave, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        node = "http://{}:{}".format(*server.socket.getsockname()[:2])
        with door(Leases([node])) as url, connect(f"{url.replace('http', 'ws', 1)}/x", max_size=None) as asked:
            assert asked.recv(30) == "short"
            with pytest.raises(ConnectionClosed):
                asked.recv(30)
        server.shutdown()


def test_a_request_gets_no_headers_that_its_client_did_not_send() -> None:
    got: list[bytes] = []
    with rude(begins("text/plain", b"x"), got) as node, door(Leases([node])) as url:
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port), timeout=30) as asked:
            asked.sendall(b"GET /v1/health HTTP/1.1\r\nHost: box\r\nX-Mine: 1\r\n\r\n")
            assert asked.recv(1 << 10).startswith(b"HTTP/1.1 200 ")
    names = {line.partition(b":")[0].lower() for line in got[0].splitlines()[1:] if line}
    assert names == {b"host", b"x-mine"}


def test_a_cookie_of_a_node_goes_with_no_other_request() -> None:
    """Cookies of one answer went with the requests of all clients, and there was no end of them."""
    got: list[bytes] = []
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"
    with rude(lambda connection: connection.sendall(answer), got) as node, door(Leases([node])) as url:
        for _ in range(2):
            assert httpx.get(f"{url}/v1/health").headers["set-cookie"] == "a=b"
    assert len(got) == 2
    assert b"cookie" not in b"".join(got).lower()


def head(path: str, size: int, key: str = "") -> bytes:
    """The head of a request with a body of JSON."""
    lines = [f"POST {path} HTTP/1.1", "Host: box", "Content-Type: application/json", f"Content-Length: {size}"]
    return "\r\n".join([*lines, *([f"x-api-key: {key}"] if key else []), "", ""]).encode()


@contextlib.contextmanager
def asking(url: str, sent: bytes) -> Iterator[socket.socket]:
    """A connection that sends this, and no more."""
    address = httpx.URL(url)
    with socket.create_connection((address.host, address.port), timeout=30) as asked:
        asked.sendall(sent)
        yield asked


def test_bodies_that_stall_end_in_time() -> None:
    """All at once, as each waits for its end."""
    paths, parts = (CHAT, "/api/chat", "/v1/messages"), (b"", b'{"messages": ', b" " * 200_000)
    with (
        rude(lambda connection: connection.recv(1 << 20) and None) as node,
        door(Leases([node]), limits=Limits(body_seconds=0.3)) as url,
        contextlib.ExitStack() as all_,
    ):
        stalled = {
            (path, sent[:10]): all_.enter_context(asking(url, head(path, 1 << 20) + sent))
            for path in paths
            for sent in parts
        }
        for case, asked in stalled.items():
            answer = b""
            while b"did not come in time" not in answer:
                answer += (more := asked.recv(1 << 12))
                assert more, (case, answer)
            assert answer.startswith(b"HTTP/1.1 408 "), (case, answer)


def test_a_refusal_in_the_middle_of_an_upload_passes() -> None:
    """The node's reset came before the refusal was read, and the client got 502 (node_lost)."""
    refused = threading.Event()

    def refuses(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n")
        refused.set()
        with contextlib.suppress(OSError):
            connection.recv(1 << 16)

    with (
        rude(refuses) as node,
        door(Leases([node]), "key") as url,
        asking(url, head("/v1/audio/transcriptions", 1 << 20) + b" " * (128 << 10)) as asked,
    ):
        assert refused.wait(30)
        for _ in range(8):
            asked.sendall(b" " * (32 << 10))
        answer = asked.recv(1 << 12)
    assert answer.startswith(b"HTTP/1.1 429 "), answer
    assert b"retry-after: 9" in answer


def test_bodies_hold_no_more_than_their_bound_together() -> None:
    """The client is over its share with the third: the slowest is refused, and the last one is answered."""
    limits = Limits(max_body_bytes=1 << 20, max_json_bytes=1 << 20, body_seconds=30)
    with (
        serving(fake_pool(["llm"])) as node,
        door(Leases([node.url]), limits=limits) as url,
        contextlib.ExitStack() as all_,
    ):
        part = head(CHAT, 1 << 20) + b" " * 900_000
        opened = [all_.enter_context(asking(url, part)) for _ in range(3)]
        ready, _, _ = select.select(opened, [], [], 20)
        answer = ready[0].recv(1 << 12)
        assert answer.startswith(b"HTTP/1.1 503 "), answer
        assert b"retry-after" in answer
        assert httpx.post(url + CHAT, json=says("good morning"), timeout=30).status_code == 200


@pytest.mark.parametrize("key", ["", "wrong"])
def test_without_the_key_no_long_body_is_read(key: str) -> None:
    leases = Leases([f"http://127.0.0.1:{free_port()}"])
    with door(leases, key="secret") as url, asking(url, head(CHAT, 1 << 20, key) + b" " * 200_000):
        until(lambda: len(leases.asked) > 0)  # a node is asked, which refuses it


def test_with_the_key_the_door_waits_for_the_whole_body() -> None:
    leases = Leases([f"http://127.0.0.1:{free_port()}"])
    with (
        door(leases, key="secret") as url,
        asking(url, head(CHAT, 1 << 20, "secret") + b" " * 200_000) as asked,
    ):
        asked.settimeout(0.3)
        with pytest.raises(TimeoutError):
            asked.recv(1)
        assert leases.asked == []


def test_the_status_takes_the_key_in_each_header(client: httpx.Client) -> None:
    with door(Leases([]), key="secret") as url:
        for name in ("x-api-key", "api-key"):
            assert client.get(f"{url}/cluster/status", headers={name: "secret"}).status_code == 200
            assert client.get(f"{url}/cluster/status", headers={name: "wrong"}).status_code == 401


def test_clients_take_turns_with_long_bodies_beside_the_loop(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, str]] = []

    def noted(*asked: Any) -> Question:
        read.append((threading.current_thread().name, clients.current.get().address))
        return read_question(*asked)

    monkeypatch.setattr(passing, "read_question", noted)
    with serving(fake_pool(["llm"], context=10**6)) as node, door(Leases([node.url])) as url:
        assert client.post(url + CHAT, json=says("word " * 10_000, max_tokens=1)).status_code == 200
    ((thread, address),) = read
    assert thread.startswith("edgeserve the reading of bodies")
    assert address == clients.LOOPBACK


def test_a_request_that_nobody_may_pass_on_is_no_fault_of_a_node(node: Running) -> None:
    """Uvicorn's faster parser, which comes with Ray, lets it through."""
    twice = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: other\r\n\r\n"
    with door(leases := Leases([node.url])) as url, asking(url, twice) as asked:
        assert asked.recv(1 << 12).startswith(b"HTTP/1.1 400 ")
    assert len(leases.asked) <= 1


def test_little_of_a_node_waits_for_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own queue holds 16 messages of up to 4 MB for each client."""
    asked: list[dict[str, Any]] = []

    def connecting(url: str, **settings: Any) -> Any:
        asked.append(settings)
        raise OSError("no node")

    monkeypatch.setattr("websockets.asyncio.client.connect", connecting)
    with door(Leases(["http://127.0.0.1:1"])) as url, pytest.raises(InvalidStatus, match="502"):
        connect(f"{url.replace('http', 'ws', 1)}/v1/realtime")
    (settings,) = asked
    assert settings["max_size"] * settings["max_queue"] <= 4 << 20
