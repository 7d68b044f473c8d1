"""Pulls over HTTP: followed, joined, left, cancelled, and refused before anything is fetched."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.http_files import Files, serving_files
from support.managed import managed
from support.raw import dialled
from support.server import Running, until
from support.store import GGUF

from edgeserve.api.manage import stream
from edgeserve.models import catalog
from edgeserve.models.pulls import Pulls
from edgeserve.models.store import Store


@pytest.fixture
def files() -> Iterator[Files]:
    """Models whose bodies stop after 1 KB until the gate opens."""
    with serving_files() as files:
        files.data = {"/one.gguf": GGUF, "/two.gguf": GGUF}
        files.gate = threading.Event()
        yield files


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(catalog, "COMPANIONS", {})
    with managed({}, Store(tmp_path / "models")) as (running, _):
        yield running


def go(files: Files) -> None:
    assert files.gate
    files.gate.set()


def pulls_of(running: Running) -> Pulls:
    found: Pulls = running.app.state.pulls
    return found


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    return (json.loads(line.removeprefix("data: ")) for line in lines if line)


def order(files: Files, name: str = "one", **more: Any) -> dict[str, Any]:
    return {"model": f"{files.url}/{name}.gguf", **more}


def test_a_pull_is_followed_to_its_end(running: Running, files: Files) -> None:
    with running.client.stream("POST", "/admin/pull", json=order(files)) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer.iter_lines())
        first = next(found)
        go(files)
        last = [first, *found][-1]
    assert first["model"] == "one"
    assert last | {"done": 0, "total": 0} == {
        "model": "one",
        "status": "success",
        "part": "one",
        "done": 0,
        "total": 0,
        "source": f"{files.url}/one.gguf",
        "size_bytes": len(GGUF),
        "licence": "unknown",
    }
    assert running.client.get("/admin/pulls").json() == {"pulls": [last]}


def test_the_last_who_leaves_ends_the_pull(running: Running, files: Files) -> None:
    with httpx.stream("POST", f"{running.url}/admin/pull", json=order(files)) as there:
        lines = there.iter_lines()  # kept: closing it would close the connection
        next(lines)
        with httpx.stream("POST", f"{running.url}/admin/pull", json=order(files)) as here:
            next(here.iter_lines())
        assert running.client.get("/admin/pulls").json()["pulls"][0]["status"] == "download"
        (pull,) = pulls_of(running).all()
        assert not pull.state.over
    until(lambda: pull.state.over)
    assert pull.state.stage == "cancelled"


def test_who_only_follows_does_not_hold_the_pull(running: Running, files: Files) -> None:
    with running.client.stream("POST", "/admin/pull", json=order(files)) as answer:
        lines = answer.iter_lines()
        next(lines)
        with httpx.Client(base_url=running.url) as other, other.stream("GET", "/admin/pulls/one") as following:
            assert next(events(following.iter_lines()))["model"] == "one"
        go(files)
        assert list(events(lines))[-1]["status"] == "success"


def test_a_pull_in_the_background_needs_no_client(running: Running, files: Files) -> None:
    answer = running.client.post("/admin/pull", json=order(files, background=True))
    assert (answer.status_code, answer.json()["model"]) == (202, "one")
    with running.client.stream("POST", "/admin/pull", json=order(files)) as joined:
        next(joined.iter_lines())
    go(files)
    with running.client.stream("GET", "/admin/pulls/one") as following:
        assert [one["status"] for one in events(following.iter_lines())][-1] == "success"
    assert files.gets("/one.gguf") == 1


def test_a_pull_without_a_stream_is_answered_at_its_end(running: Running, files: Files) -> None:
    go(files)
    assert running.client.post("/admin/pull", json=order(files, stream=False)).json()["status"] == "success"
    answer = running.client.post("/admin/pull", json={"model": f"{files.url}/gone.gguf", "stream": False})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "source_unavailable")


def test_who_waits_without_a_stream_and_leaves_ends_the_pull(running: Running, files: Files) -> None:
    body = json.dumps(order(files, stream=False)).encode()
    head = b"POST /admin/pull HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with dialled(running) as link:
        link.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: len(pulls_of(running).all()) == 1)
    (pull,) = pulls_of(running).all()
    until(lambda: pull.state.over)
    assert pull.state.stage == "cancelled"


def test_a_cancelled_pull_tells_those_who_follow(running: Running, files: Files) -> None:
    with running.client.stream("POST", "/admin/pull", json=order(files)) as answer:
        found = events(answer.iter_lines())
        next(found)
        cancelled = httpx.delete(f"{running.url}/admin/pulls/one")
        assert cancelled.json()["status"] == "cancelled"
        assert list(found)[-1]["status"] == "cancelled"
    again = running.client.delete("/admin/pulls/one")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "in_use")
    assert running.client.delete("/admin/pulls/none").status_code == 404


def test_a_failure_is_the_last_event(running: Running, files: Files) -> None:
    with running.client.stream("POST", "/admin/pull", json={"model": f"{files.url}/gone.gguf"}) as answer:
        last = list(events(answer.iter_lines()))[-1]
    assert last["status"] == "failed"
    assert last["error"]["code"] == "source_unavailable"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"model": "/etc/passwd"}, 400, "never a path"),
        ({"model": "qwen4"}, 404, "did you mean"),
        ({"model": "https://example.org/x.bin"}, 400, "only GGUF files"),
        ({"model": " "}, 400, "model"),
        ({"model": "x" * 5000}, 400, "limit is 4096"),
        ({"model": "hibari", "insecure": True}, 400, "not a known field"),
    ],
)
def test_a_wrong_order_is_an_error_before_the_stream(
    running: Running, body: dict[str, Any], status: int, words: str
) -> None:
    answer = running.client.post("/admin/pull", json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_a_silent_source_is_a_stream_that_repeats_itself(
    running: Running, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BEAT_SECONDS", 0.01)
    with running.client.stream("POST", "/admin/pull", json=order(files)) as answer:
        found = events(answer.iter_lines())
        assert len({json.dumps(next(found)) for _ in range(5)}) < 5


def test_the_end_of_the_server_ends_a_pull_and_its_stream(tmp_path: Path, files: Files) -> None:
    with (
        managed({}, Store(tmp_path / "models")) as (running, _),
        running.client.stream("POST", "/admin/pull", json=order(files)) as answer,
    ):
        found = events(answer.iter_lines())
        next(found)
        running.server.should_exit = True
        assert list(found)[-1]["status"] == "cancelled"
        go(files)  # else the end would wait some time for the thread of the pull
