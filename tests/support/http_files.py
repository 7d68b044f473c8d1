"""A file server on loopback: ranges, redirects, faults on demand, and the model hub's protocol."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Files:
    """Files to serve. ``cut_after``: the connection breaks after so many bytes of a body, once."""

    data: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    ranges: bool = True
    cut_after: int | None = None
    status: int = 200
    redirects: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    """Content-Type by path; none for the others."""
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Headers to send in place of the true ones, by path."""
    token: str | None = None
    gate: threading.Event | None = None
    """Bodies wait for it after their first bytes."""
    begun: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """(method, path, Range) of each request."""
    authorizations: list[str | None] = field(default_factory=list)
    """The header Authorization of each request."""

    def gets(self, path: str) -> int:
        return sum(method == "GET" and seen == path for method, seen, _ in self.requests)


class _Handler(BaseHTTPRequestHandler):
    files: Files
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *ignored: object) -> None: ...

    def _answer(self, *, body: bool) -> None:
        files, path = self.files, self.path.split("?")[0]
        files.requests.append((self.command, path, self.headers.get("Range")))
        files.authorizations.append(self.headers.get("Authorization"))
        if files.token and self.headers.get("Authorization") != f"Bearer {files.token}":
            return self._plain(401, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
        if files.status != 200:
            return self._plain(files.status, b"no")
        if path in files.redirects:
            return self._plain(302, b"", {"Location": files.redirects[path]})
        if path.startswith("/api/models/"):
            names = [name.split("/resolve/main/")[1] for name in files.data if "/resolve/" in name]
            tree = [{"type": "file", "path": name, "oid": "0", "size": 1} for name in names]
            return self._plain(200, json.dumps(tree).encode(), {"Content-Type": "application/json"})
        if path not in files.data:
            return self._plain(404, b"none", {"X-Error-Code": "EntryNotFound"})
        return self._file(files.data[path], body=body)

    def _plain(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def _file(self, data: bytes, *, body: bool) -> None:
        files = self.files
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        wanted, start = self.headers.get("Range"), 0
        same = self.headers.get("If-Range", etag) == etag
        if wanted and files.ranges and same:
            start = int(wanted.removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        told = {"Content-Length": str(len(data) - start), "ETag": etag, **files.headers.get(self.path, {})}
        for name, value in told.items():
            self.send_header(name, value)
        if kind := files.types.get(self.path.split("?")[0]):
            self.send_header("Content-Type", kind)
        self.send_header("X-Repo-Commit", COMMIT)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if not body:
            return
        part = data[start:]
        if files.cut_after is not None:
            part, files.cut_after = part[: files.cut_after], None
            self.close_connection = True
        self.wfile.write(part[:1024])
        self.wfile.flush()
        files.begun.set()
        if files.gate is not None:
            files.gate.wait(20)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(part[1024:])


@contextlib.contextmanager
def serving_files() -> Iterator[Files]:
    files = Files()
    handler = type("Handler", (_Handler,), {"files": files})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        files.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield files
        finally:
            if files.gate is not None:
                files.gate.set()
            server.shutdown()
            thread.join()
