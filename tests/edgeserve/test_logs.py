"""Clients cannot write log lines of their own, or control sequences of a terminal."""

from __future__ import annotations

import io
import itertools
import json
import logging
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.server import Running, fake_pool, serving, until

from edgeserve.logs import CONTINUED, LONGEST_TRACEBACK, JsonFormatter, PlainFormatter

ANY = st.text(st.characters() | st.sampled_from("\n\r\x1b\x9b\x85\x00\x7f\u2028\u2029\u202e\u2066\u200f\ud800\udfff\\"))
FORGED = "x\n12:00:00 INFO    edgeserve.access [-] GET /admin 200 1 ms\x1b[2J\x9b31m\r\u2028\u202e"


def written(formatter: logging.Formatter, text: str, error: Exception | None = None) -> str:
    exc_info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("edgeserve.access", logging.INFO, "", 1, "%s %s", ("GET", text), exc_info)
    record.request_id = "req_1"
    return formatter.format(record)


def is_visible(line: str) -> bool:
    """Whether no character of the line controls, formats, separates lines or is half of one."""
    return not any(unicodedata.category(one) in ("Cc", "Zl", "Zp", "Cs") or one in "\u202e\u2066\u200f" for one in line)


@given(ANY)
def test_a_message_is_one_visible_line(text: str) -> None:
    assert is_visible(written(PlainFormatter(), text))
    line = written(JsonFormatter(), text)
    assert is_visible(line)
    assert json.loads(line)["msg"] == f"GET {text}"


@given(ANY)
def test_the_lines_of_a_traceback_are_none_of_their_own(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError as error:
        plain, whole = written(PlainFormatter(), "x", error), written(JsonFormatter(), "x", error)
    first, *more = plain.split("\n")
    assert first.endswith("GET x")
    assert more
    assert all(line.startswith(CONTINUED) and is_visible(line) for line in more)
    assert is_visible(whole)
    assert text in json.loads(whole)["exception"]


def test_visible_text_stays_as_it_is() -> None:
    text = "näh 語 \U0001f600 C:\\new\\table"
    assert written(PlainFormatter(), text).endswith(f"GET {text}")


@pytest.fixture
def served() -> Iterator[tuple[Running, dict[str, io.StringIO]]]:
    streams = {"plain": io.StringIO(), "json": io.StringIO()}
    logger = logging.getLogger("edgeserve.access")
    handlers = []
    for name, formatter in (("plain", PlainFormatter()), ("json", JsonFormatter())):
        handler = logging.StreamHandler(streams[name])
        handler.setFormatter(formatter)
        handler.addFilter(lambda record: setattr(record, "request_id", "req") is None)
        handlers.append(handler)
        logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)  # by its setter, which forgets what the logger remembers of its levels
    with serving(fake_pool(["llm"])) as running:
        yield running, streams
    logger.setLevel(level)
    for handler in handlers:
        logger.removeHandler(handler)


@pytest.mark.unforeseen
def test_a_path_forges_no_line(served: tuple[Running, dict[str, Any]]) -> None:
    running, streams = served
    running.client.get("/" + quote(FORGED))
    running.client.post("/v1/transcribe/push?" + quote(FORGED), content=b"")
    running.client.get("/v1/models/" + quote(FORGED), headers={"X-Request-Id": "req] forged ["})
    running.app.state.sessions.using = None
    answer = running.client.delete("/v1/transcribe/stream/" + quote(FORGED.replace("/", "")))
    assert answer.status_code == 500
    until(lambda: streams["json"].getvalue().count("\n") == 5)  # the last comes behind its answer
    plain, whole = streams["plain"].getvalue(), streams["json"].getvalue()
    lines = [line for line in plain.splitlines() if not line.startswith(CONTINUED)]
    assert len(lines) == 5, "one for each request, and one that begins a traceback"
    assert all(" edgeserve.access [req] " in line for line in lines)
    assert sum("GET /admin" in line or "GET admin" in line for line in lines) == 4, "within lines that begin otherwise"
    assert all(is_visible(line) for line in plain.split("\n"))
    assert [json.loads(line)["level"] for line in whole.splitlines()] == ["info", "info", "info", "error", "info"]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["a" * 8000, "%01" * 5000, "%e2%80%8b" * 1700])
def test_a_flood_of_long_paths_writes_little(served: tuple[Running, dict[str, Any]], path: str) -> None:
    running, streams = served
    for _ in range(10):
        running.client.get("/" + path)
        running.client.get("/v1/models/" + path)
    until(lambda: streams["json"].getvalue().count("\n") == 20)
    for stream in streams.values():
        assert max(map(len, stream.getvalue().splitlines())) < 2000


@each("method", ["x" * 15_000, "GET" * 5_000, "!#$%&'*+-.^_`|~" * 1_000])
def test_a_flood_of_long_methods_writes_little(served: tuple[Running, dict[str, Any]], method: str) -> None:
    """A method of 16 KB stood whole in each line of JSON, twice."""
    running, streams = served
    before = streams["json"].getvalue().count("\n")
    assert running.client.request(method, "/v1/models").status_code == 405
    until(lambda: streams["json"].getvalue().count("\n") > before)
    for stream in streams.values():
        assert max(map(len, stream.getvalue().splitlines())) < 2000


@each(("formatter", "message"), itertools.product([PlainFormatter(), JsonFormatter()], ["x", "x\n", "\n", "\u202e"]))
def test_a_traceback_of_megabytes_is_cut(formatter: logging.Formatter, message: str) -> None:
    """An exception may quote a request, in any number of lines: JSON wrote all of it, plain all of its lines."""
    try:
        raise ValueError("first " + message * 2_000_000 + " last")
    except ValueError as error:
        told = written(formatter, "x", error)
    assert len(told) < 10 * LONGEST_TRACEBACK
    assert "ValueError: first" in told
    assert " last" in told


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()])
def test_a_message_of_megabytes_is_cut(formatter: logging.Formatter) -> None:
    assert len(written(formatter, "x" * 5_000_000)) < 5000
