"""The server that a command means, its key, and what goes wrong on the way."""

from __future__ import annotations

import argparse
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import run, told
from support.managed import managed
from support.server import Running

from edgeserve.commands import Call
from edgeserve.commands.remote import Server, server
from edgeserve.errors import ConfigError, EdgeserveError


def meant(environ: dict[str, str] | None = None, url: str | None = None, port: int | None = None) -> Server:
    args = argparse.Namespace(url=url, port=port, config=None)
    return server(Call(args, environ or {}))


def test_the_nearest_name_of_a_server_wins(settings: Path) -> None:
    (settings / "models.toml").write_text('[server]\nport = 9000\nhost = "0.0.0.0"\napi_key = "own"\n')
    named = {"EDGESERVE_URL": "https://box.example:1/prefix"}
    assert meant() == Server("http://127.0.0.1:9000", "own")
    assert meant(port=9001) == Server("http://127.0.0.1:9001", "own")
    assert meant(named) == Server("https://box.example:1/prefix")
    assert meant(named, url="http://[::1]:2") == Server("http://[::1]:2")
    assert meant(named, port=9001) == Server("http://127.0.0.1:9001", "own")


def test_the_key_of_the_settings_goes_to_their_own_address_alone(settings: Path) -> None:
    (settings / "models.toml").write_text('[server]\napi_key = "own"\nhost = "::"\n')
    assert meant(url="http://far.example").key == ""
    assert meant({"EDGESERVE_API_KEY": "given"}, url="http://far.example").key == "given"
    assert meant() == Server("http://[::1]:8080", "own")
    assert "own" not in repr(meant())


@pytest.mark.parametrize("url", ["box:8080", "ftp://box", "http://", "http://[", "http://box:99999", "http://box:0"])
def test_an_address_that_is_none(settings: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="expected an address such as"):
        meant(url=url)


def test_a_server_with_a_key_wants_it(capsys: pytest.CaptureFixture[str]) -> None:
    with managed({}, server={"api_key": "sesame"}) as (running, _):
        environ = {"EDGESERVE_URL": running.url}
        assert run("ps", environ=environ) == 1
        assert "no key or a wrong one; set EDGESERVE_API_KEY to" in told(capsys)[0]
        assert run("ps", environ=environ | {"EDGESERVE_API_KEY": "sesame"}) == 0


def test_nobody_answers(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert run("ps", "--port", str(port)) == 1
    assert f"no edgeserve answers at http://127.0.0.1:{port} (Connection refused): start one" in told(capsys)[0]


@pytest.fixture
def other() -> Iterator[Any]:
    """A server of another kind: says what the test wants, then hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        says: list[bytes] = []

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(says[0])

        thread = threading.Thread(target=answer)

        def begin(said: bytes) -> str:
            says.append(said)
            thread.start()
            return f"http://127.0.0.1:{listener.getsockname()[1]}"

        yield begin
        thread.join(10)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "answered with no JSON; is it an edgeserve?"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}", "answered 500 Oh"),
        (b'HTTP/1.1 404 No\r\nContent-Length: 13\r\n\r\n{"error":"no"}'[:-1], "answered with no JSON"),
        (b"SSH-2.0-OpenSSH\r\n", "no edgeserve answers"),
        (b"", "no edgeserve answers"),
    ],
)
def test_an_answer_of_another_server(other: Any, said: bytes, words: str) -> None:
    with pytest.raises(EdgeserveError, match=words):
        Server(other(said)).ask("GET", "/memory/models")


@pytest.mark.parametrize("order", ["\x1b]0;gone\x07", "\x1b[2J", "\r", "\x08\x08", "\x9b31m", "\x7f", "\x00"])
def test_a_server_gives_no_orders_to_the_terminal(other: Any, order: str) -> None:
    body = json.dumps({f"a{order}": [f"b{order}\n\t", {"c": f"ä🙂{order}"}, 1, None]}).encode()
    found = Server(other(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)).ask("GET", "/")
    shown = "".join(f"\\u{ord(one):04x}" if not one.isprintable() else one for one in order)
    assert found == {f"a{shown}": [f"b{shown}\n\t", {"c": f"ä🙂{shown}"}, 1, None]}


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 500 \x1b[2J\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/\x1b[2J 200 OK\r\n\r\n"]
)
def test_what_is_said_of_a_wrong_answer_gives_no_orders_either(other: Any, said: bytes) -> None:
    with pytest.raises(EdgeserveError, match=r"\\u001b\[2J"):
        Server(other(said)).ask("GET", "/")


def test_a_server_that_is_silent(running_silent: str) -> None:
    with pytest.raises(EdgeserveError, match=r"was silent for 0\.05 s"):
        Server(running_silent).ask("GET", "/", seconds=0.05)


@pytest.fixture
def running_silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_stream_that_is_left_is_closed(running: Running) -> None:
    one = Server(running.url.rstrip("/"))
    events = one.events("GET", "/models/sse")
    assert next(events)["event"] == "model_status"
    events.close()


@pytest.fixture
def running() -> Iterator[Running]:
    with managed() as (running, _):
        yield running
