"""The client of a request, and the key."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from support.cases import each
from support.raw import TEXT, dialled, flood, frame, handshake
from support.refusals import told
from support.server import Running, fake_pool, serving, until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from edgeserve.activity import Activity
from edgeserve.api import auth
from edgeserve.api.admission import REVOKED
from edgeserve.api.auth import GRANT, OFFERED, KeyRequired, client_of, for_owner, is_loopback
from edgeserve.api.routes import ENTRIES, routes
from edgeserve.attendants import Attendant, Revocation
from edgeserve.clients import Client
from edgeserve.connections import Patience
from edgeserve.errors import Forbidden
from edgeserve.keys import file
from edgeserve.keys.key import Key, digest_of
from edgeserve.keys.ring import Keyring


@each(
    ("address", "known_as"),
    [
        (("127.0.0.1", 5), "loopback"),
        (("127.9.9.9", 5), "loopback"),
        (("::1", 5), "loopback"),
        (("::ffff:127.0.0.1", 5), "loopback"),
        (("::ffff:192.0.2.7", 5), "192.0.2.7"),
        (("192.0.2.7", 6), "192.0.2.7"),
        (("2001:db8::1", 5), "2001:db8::1"),
        (None, ""),
    ],
)
def test_without_a_key_by_the_address(address: Any, known_as: str) -> None:
    assert client_of({"type": "http", "client": address, "headers": []}) == Client("", known_as)


def test_with_a_key_by_that_which_does_not_stand_there(tmp_path: Path) -> None:
    seen: list[Client] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(client_of(scope))

    def ask(key: str, others: Path | None = None) -> None:
        headers = [(b"authorization", f"bearer {key}".encode())]
        scope = {"type": "http", "path": "/v1/chat", "client": ("192.0.2.7", 5), "headers": headers}
        scope["method"] = "POST"
        asyncio.run(KeyRequired(app, Keyring(key, others))(scope, None, None))  # type: ignore[arg-type]

    ask("sesame")
    ask("another")
    ask("sesame")
    assert seen[0] == seen[2] != seen[1]
    assert "sesame" not in repr(seen[0])
    assert seen[0].owner == Client(seen[0].key)
    file.write(tmp_path / "keys.json", [Key("phone", digest_of(b"simsim"))])
    ask("sesame", tmp_path / "keys.json")
    assert [one.sole for one in seen] == [True, True, True, False]


@each("host", ["", "localhost", "0.0.0.0", "::", "10.0.0.1", "127.0.0.1.far.example", "::ffff:10.0.0.1"])
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@each(
    ("scope", "client", "served"),
    [
        (None, ("127.0.0.1", 5), True),
        (None, ("::1", 5), True),
        (None, ("192.0.2.7", 5), False),
        (None, ("::ffff:10.0.0.1", 5), False),
        (None, None, False),
        ("admin", ("192.0.2.7", 5), True),  # KeyRequired has checked the key
        ("use", ("127.0.0.1", 5), False),
    ],
)
def test_only_the_owner_manages_the_server(scope: Any, client: Any, served: bool) -> None:
    asked: list[Request] = []

    async def endpoint(request: Request) -> Response:
        asked.append(request)
        return Response()

    request = Request({"type": "http", "method": "POST", "path": "/admin/reload", "headers": []})
    request.scope["client"] = client
    if scope:
        request.scope[GRANT] = Key("phone", digest_of(b"sesame"), scope)
    refused = "the scope use" if scope else "only programs of this machine"
    with contextlib.nullcontext() if served else pytest.raises(Forbidden, match=refused):
        asyncio.run(for_owner(endpoint)(request))  # type: ignore[arg-type]
    assert bool(asked) is served


def test_every_route_that_manages_the_server_is_the_owners() -> None:
    managing = [
        one for one in ENTRIES if one.path.startswith(("/admin", "/models", "/slots", "/api/pull", "/api/delete"))
    ]
    managing += [one for one in ENTRIES if one.path.startswith("/memory") and one.method == "POST"]
    assert len(managing) >= 19
    assert [one.path for one in managing if not one.owner] == []
    wrapped = {route.path for route in routes() if isinstance(route, Route) and hasattr(route.endpoint, "__wrapped__")}
    assert {one.path for one in managing} == wrapped


@pytest.mark.parametrize("own", ["sesame", "a/b=c", "per%cent", "%41", '(ä) 🙂,;"', "x" * 200])
def test_a_websocket_offers_any_key(own: str) -> None:
    """As the page does, and as it is where it has no other characters than a sub-protocol takes."""
    encoded = quote(own, safe="!~*'")
    found = [auth.keys({"headers": [], "subprotocols": ["realtime", f"{OFFERED}{encoded}"]})]
    if own.isalnum() or own == "per%cent" or own == "%41":
        found.append(auth.keys({"headers": [], "subprotocols": [f"{OFFERED}{own}"]}))
    for one in found:
        assert Keyring(own).find(one) is not None
    assert Keyring("another").find(found[0]) is None


CHAT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def key(name: str, **more: Any) -> Key:
    return Key(name, digest_of(name.encode()), **more)


def ask(running: Running, token: str, path: str = "/v1/chat", method: str = "POST") -> httpx.Response:
    return running.client.request(method, path, json=CHAT, headers=bearer(token))


def test_named_keys_use_and_manage(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    file.write(keys, [key("phone"), key("owner", scope="admin")])
    with serving(fake_pool(["llm"]), keys_file=str(keys), api_key="sesame") as running:
        assert running.client.get("/v1/health").status_code == 200
        assert running.client.get("/v1/models").status_code == 401
        for token in ("phone", "owner", "sesame"):
            assert ask(running, token).status_code == 200
        refused = ask(running, "phone", "/memory/evict/llm")
        assert (refused.status_code, told(refused)["code"]) == (403, "forbidden")
        assert "'phone' has the scope use" in told(refused)["message"]
        for token in ("owner", "sesame"):
            assert ask(running, token, "/memory/evict/llm").status_code == 200


def test_keys_come_and_go_while_the_server_runs(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    with serving(fake_pool(["llm"]), keys_file=str(keys)) as running:
        assert running.client.post("/v1/chat", json=CHAT).status_code == 200, "no key is there yet"
        file.write(keys, [key("phone")])
        assert running.client.post("/v1/chat", json=CHAT).status_code == 401
        assert ask(running, "phone").status_code == 200
        file.write(keys, [key("desk")])
        assert ask(running, "phone").status_code == 401
        assert ask(running, "desk").status_code == 200


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/chat", {"type": "rate_limit_error", "code": "rate_limit_exceeded"}),
        ("/v1/chat/completions", {"type": "rate_limit_error", "code": "rate_limit_exceeded"}),
        ("/v1/messages", {"type": "rate_limit_error", "code": "rate_limit_exceeded"}),
        ("/v1/responses", {"type": "rate_limit_error", "code": "rate_limit_exceeded"}),
        ("/api/chat", {}),
        ("/completion", {"type": "rate_limit_error", "code": "rate_limit_exceeded"}),
    ],
)
def test_a_key_at_its_limit_is_told_in_the_words_of_the_dialect(tmp_path: Path, path: str, shape: Any) -> None:
    keys = tmp_path / "keys.json"
    file.write(keys, [key("phone", per_minute=1), key("desk")])
    with serving(fake_pool(["llm"]), keys_file=str(keys)) as running:
        assert ask(running, "phone", path).status_code != 429
        refused = ask(running, "phone", path)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert "1 requests of a minute" in told(refused)["message"]
        assert shape.items() <= {**told(refused)}.items()
        assert ask(running, "phone", "/v1/models", "GET").status_code == 200, "reading counts for nothing"
        assert ask(running, "desk", path).status_code != 429, "each key has its own limit"


def test_no_more_run_at_once_than_the_key_may(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    file.write(keys, [key("phone", at_once=1)])
    with serving(fake_pool(["llm", "asr"]), keys_file=str(keys)) as running:
        url = running.url.rstrip("/").replace("http", "ws") + "/v1/transcribe/live"
        with connect(url, additional_headers=bearer("phone")):
            until(lambda: len(running.app.state.sessions) == 1)
            refused = ask(running, "phone")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
            with pytest.raises(InvalidStatus) as second:
                connect(url, additional_headers=bearer("phone"))
            assert second.value.response.status_code == 429
        until(lambda: ask(running, "phone").status_code == 200)


@pytest.mark.parametrize("path", ["/v1/transcribe/live", "/v1/realtime"])
def test_a_websocket_ends_with_its_key(tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture) -> None:
    keys, words = tmp_path / "keys.json", '{"type": "nothing"}'

    def read(socket: ClientConnection, text: str) -> None:
        """Read to a message with this text."""
        while text not in str(socket.recv(timeout=10)):
            pass

    file.write(keys, [key("phone"), key("desk")])
    with serving(fake_pool(["llm", "asr", "tts"]), keys_file=str(keys)) as running:
        url = running.url.rstrip("/").replace("http", "ws") + path
        with connect(url, additional_headers=bearer("phone")) as socket:
            file.write(keys, [key("phone", per_minute=9), key("desk")])
            socket.send(words)
            read(socket, "error")  # it was read: other limits are the same key
            file.write(keys, [key("desk")])
            socket.send(words)
            with pytest.raises(ConnectionClosed, match="the key was revoked"):
                read(socket, "an end")
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@contextlib.contextmanager
def looking(tmp_path: Path, *keys: Key, **settings: Any) -> Iterator[tuple[Running, Path]]:
    """A server with these keys, which looks at their file as a server does; without keys, there is no file."""
    path = tmp_path / "keys.json"
    if keys:
        file.write(path, keys)
    watch = Looks()
    with serving(fake_pool(["llm", "asr", "tts"]), keys_file=str(path), attendants=[watch], **settings) as running:
        watch.ring = running.app.state.ring
        yield running, path


class Looks(Attendant):
    """``Revocation`` of a ring that is known when the server runs."""

    ring: Keyring | None = None

    def look(self, server: Activity) -> None:
        if self.ring is not None:
            Revocation(self.ring).look(server)


@pytest.mark.parametrize("path", ["/v1/transcribe/live", "/v1/realtime"])
@pytest.mark.parametrize(("first", "then", "why"), [
    ("phone", "desk", "the key was revoked"),
    ("", "desk", "requires a key by now"),
])  # fmt: skip
def test_a_silent_websocket_ends_with_its_admission(
    tmp_path: Path, path: str, first: str, then: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with looking(tmp_path, *([key(first)] if first else [])) as (running, keys):
        url = running.url.rstrip("/").replace("http", "ws") + path
        with connect(url, additional_headers=bearer(first) if first else {}) as socket:
            socket.recv(timeout=10)
            file.write(keys, [key(then)])
            with pytest.raises(ConnectionClosed, match=why) as closed:  # noqa: PT012 - what came before is read
                while True:
                    socket.recv(timeout=10)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == REVOKED
        until(lambda: len(running.app.state.sessions) == 0)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(("path", "places"), [("/v1/transcribe/live", "sessions"), ("/v1/realtime", "places")])
def test_a_websocket_whose_client_does_not_read_ends_with_its_key(tmp_path: Path, path: str, places: str) -> None:
    """It lasted until the time-out of writing, which is a minute here."""
    with contextlib.ExitStack() as held:
        running, keys = held.enter_context(looking(tmp_path, key("phone"), patience=Patience(write=60)))
        link = held.enter_context(dialled(running, receive_bytes=4096))
        link.sendall(handshake("Authorization: Bearer phone", path=path))
        assert link.recv(12) == b"HTTP/1.1 101", "frames that come before this answer are refused"
        until(lambda: len(getattr(running.app.state, places)) == 1)
        (connection,) = running.server.server_state.connections
        flood(link, frame(TEXT, b"no command"), lambda: connection._full)
        file.write(keys, [key("desk")])
        until(lambda: len(getattr(running.app.state, places)) == 0)


@pytest.mark.parametrize("first", ["phone", ""])
def test_the_memory_feed_ends_with_its_admission(tmp_path: Path, first: str) -> None:
    with looking(tmp_path, *([key(first)] if first else [])) as (running, keys):
        asked = httpx.stream(
            "GET", f"{running.url}/memory/feed?past=0", headers=bearer(first) if first else {}, timeout=30
        )
        with asked as stream:
            lines = stream.iter_lines()
            assert "start" in next(lines)
            file.write(keys, [key("desk")])
            last = [line for line in lines if line][-1]
        assert '"end"' in last
        assert ("revoked" if first else "requires a key") in last


def test_a_damaged_first_file_closes_the_server_and_health_says_so(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    with serving(fake_pool(["llm"]), keys_file=str(keys)) as running:
        assert running.client.get("/v1/health").json()["keys"] == "ok"
        keys.write_text("{")
        refused = running.client.post("/v1/chat", json=CHAT)
        assert refused.status_code == 401
        assert "the file of keys cannot be read" in told(refused)["message"]
        assert "cannot be read" in running.client.get("/v1/health").json()["keys"]
        file.write(keys, [key("phone")])
        assert ask(running, "phone").status_code == 200
        assert running.client.get("/v1/health").json()["keys"] == "ok"
