"""Answers of sources: lines beside the file are bounded, and files come whole."""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.http_files import serving_files

from edgeserve.errors import SourceUnavailable
from edgeserve.models.sources import url
from edgeserve.models.sources.framing import FREE, SHARE, Framed
from edgeserve.models.sources.source import UrlSource

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nGGUF\r\n"
MOST = 4 << 20
"""Bytes that an endless answer sends at most, so that a test without its bound fails instead of waiting."""


@contextlib.contextmanager
def source(begin: bytes, part: bytes, end: bytes = b"") -> Iterator[str]:
    """The address of a source that sends these once, ``part`` again and again."""

    def answer() -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(20)
            connection.recv(65_536)
            connection.sendall(begin)
            for _ in range(MOST // len(part) if part else 0):
                connection.sendall(part)
            connection.sendall(end)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/m.gguf"
        thread.join(30)
        assert not thread.is_alive()


@each(
    "begin, part",
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\nA: b\r\nC: d\r\n\r\n"),
        (CHUNKED, b"1\r\nx\r\n"),
        (CHUNKED, b"00000001;with=extension\r\nx\r\n"),
        (CHUNKED + b"0\r\n", b"A: b\r\n"),
    ],
)
def test_a_source_that_sends_lines_without_end_is_given_up(tmp_path: Path, begin: bytes, part: bytes) -> None:
    with source(begin, 100 * part) as address, pytest.raises(SourceUnavailable, match=r"\d bytes of lines came"):
        url.fetch(UrlSource(address), tmp_path, lambda done, total: None, 0)


def test_the_body_of_a_redirect_is_not_read(tmp_path: Path) -> None:
    with serving_files() as files:
        files.data["/m.gguf"] = b"GGUF"
        moved = f"HTTP/1.1 302 Found\r\nLocation: {files.url}/m.gguf\r\nTransfer-Encoding: chunked\r\n\r\n"
        with source(moved.encode(), b"100000\r\n%b\r\n" % bytes(1 << 20)) as address:
            found = url.fetch(UrlSource(address), tmp_path, lambda done, total: None, 0)["model"]
    assert found.read_bytes() == b"GGUF"


def test_a_part_that_nobody_asked_for_is_refused(tmp_path: Path) -> None:
    part = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/4\r\nContent-Length: 4\r\n\r\nGGUF"
    with source(part, b"") as address, pytest.raises(SourceUnavailable, match="another part of the file"):
        url.fetch(UrlSource(address), tmp_path, lambda done, total: None, 0)


@each("size", [100, 1000, 70_000])
def test_a_file_in_chunks_comes_whole(tmp_path: Path, size: int) -> None:
    chunk = b"%x\r\n%b\r\n" % (size, bytes(size))
    count = MOST // len(chunk)
    with source(CHUNKED, chunk, b"0\r\nA: b\r\n\r\n") as address:
        found = url.fetch(UrlSource(address), tmp_path, lambda done, total: None, 0)["model"]
    assert found.read_bytes() == b"GGUF" + bytes(size * count)


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 2000)), max_size=60), st.integers(0, FREE))
def test_lines_are_counted_against_the_file(parts: Sequence[tuple[int, int]], head: int) -> None:
    """Each part: bytes of a line, and bytes of the file that follow it."""
    data = [bytes(head) + b"\n", *(bytes(line - 1) + b"\n" + bytes(file) for line, file in parts)]
    reader, lines, came = Framed(io.BytesIO(b"".join(data))), 0, 0
    for line, file in [(head + 1, 0), *parts]:
        lines += line
        if lines > FREE + came // SHARE:
            with pytest.raises(http.client.HTTPException, match=f"{lines} bytes of lines came beside {came} bytes"):
                reader.readline()
            return
        assert len(reader.readline()) == line
        assert len(reader.read(file)) == file
        came += file
