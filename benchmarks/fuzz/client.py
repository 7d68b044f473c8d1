"""Sends one step over a plain socket, and judges its answer: whole, in time, and with a code that is meant."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.chaos.judge import ERRORS
from benchmarks.chaos.replies import SENTENCE, told_in
from benchmarks.fuzz import talk
from benchmarks.fuzz.case import SESSION, Ask, End, Raw, Talk

LIMIT = 10.0
"""Seconds for an answer."""
QUIET = 0.1
"""Seconds without an answer after which a WebSocket's client stops sending."""
OVERLOAD = {"queue_full", "memory_pressure", "insufficient_memory"}
"""Codes of 5xx that a server in health may give to a right request."""
FULL = (503, 507)
"""Statuses of ``OVERLOAD``, for errors without a code."""
STREAMS = (b"text/event-stream", b"application/x-ndjson")
ERROR = re.compile(rb'"error":(?! ?null)')
"""An error in a stream. Each response of the dialect Responses has a null there."""
CLOSES = {1000, 1001, 1002, 1003, 1005, 1007, 1008, 1009, *range(3000, 5000)}
"""Codes of RFC 6455 with which a server may close what a client broke, or repeats the client's own. 1011 is a failure
of the server."""


def known(page: Path = ERRORS) -> Mapping[str, set[int]]:
    """The statuses of each code, as the documentation lists them."""
    found: dict[str, set[int]] = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        if row := re.match(r"\| (\d{3}) \| ([^|]+) \|", line):
            for code in re.findall(r"`(\w+)`", row[2]):
                found.setdefault(code, set()).add(int(row[1]))
    return found


class Client:
    """``sessions``: live sessions that answers have named; the caller ends them."""

    def __init__(self, port: int) -> None:
        self._port, self._known = port, known()
        self.sessions: list[str] = []

    def send(self, step: Ask | Talk | Raw) -> End:
        session = (self.sessions[-1] if self.sessions else "none").encode()
        try:
            if isinstance(step, Talk):
                return self._talk(step)
            if isinstance(step, Raw):
                return self._raw(step)
            return self._ask(step, session)
        except TimeoutError:
            return End("0", faults=[f"no end of the answer after {LIMIT:g} s"])

    def _dial(self) -> socket.socket:
        link = socket.create_connection(("127.0.0.1", self._port), LIMIT)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

    def _ask(self, ask: Ask, session: bytes) -> End:
        data = request(ask).replace(SESSION, session)
        with self._dial() as link:
            got = _sent(link, data)
        if got is None:
            return End("0", faults=["the connection was reset before an answer"])
        return End("left") if not got and _short(data) else self.judged(ask, got)

    def _raw(self, raw: Raw) -> End:
        with self._dial() as link:
            got = _sent(link, raw.body, patience=QUIET)
        if not got:
            return End("left")
        match = re.match(rb"HTTP/1\.[01] (\d{3})", got)
        end = End(match[1].decode() if match else "0")
        if end.status == "0" or (end.status > "500" and not any(code.encode() in got for code in OVERLOAD)):
            end.faults.append(f"an answer that is not meant: {got[:300]!r}")
        return end

    def judged(self, ask: Ask, data: bytes) -> End:
        """The end of a whole answer, of which ``data`` are all bytes."""
        head, _, body = data.partition(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            head, _, body = body.partition(b"\r\n\r\n")
        if not (match := re.match(rb"HTTP/1\.1 (\d{3}) ", head)):
            return End("0", faults=[f"no answer: {data[:80]!r}"])
        status = int(match[1])
        end, headers = End(str(status)), head.lower()
        if ask.method == "HEAD":
            return end
        if b"transfer-encoding: chunked" in headers:
            whole, body = _unchunked(body)
            if not whole:
                end.faults.append("the answer was cut")
        elif (length := re.search(rb"\r\ncontent-length: (\d+)", headers)) and len(body) != int(length[1]):
            end.faults.append(f"the answer has {len(body)} of {int(length[1])} bytes")
        self._look(end, status, headers, body)
        return end

    def _look(self, end: End, status: int, headers: bytes, body: bytes) -> None:
        is_json = b"content-type: application/json" in headers
        if status >= 400 or (any(one in headers for one in STREAMS) and ERROR.search(body)):
            told = told_in(body)
            if told is None:
                end.faults.append(f"{status} without the shape of an error: {body[:200]!r}")
                return
            end.code = told[0]
            self._judge_code(end, status, told)
        elif is_json:
            try:
                found = json.loads(body, parse_constant=_no_constant)
            except ValueError as error:
                end.faults.append(f"{status} with JSON that is none ({error}): {body[:200]!r}")
            else:
                if isinstance(found, dict) and isinstance(found.get("session"), str):
                    self.sessions.append(found["session"])

    def _judge_code(self, end: End, status: int, told: tuple[str, str]) -> None:
        code, words = told
        if code in talk.REALTIME_CODES and not status:
            return
        if code == SENTENCE:
            if not 400 <= status < 500 and status not in FULL:
                end.faults.append(f"{status} without a code: {words}")
            return
        where = self._known.get(code, set())
        if status >= 400 and status not in where:
            end.faults.append(f"{status} {code} is not in docs/api/errors.md: {words}")
        elif (status >= 500 or min(where, default=500) >= 500) and code not in OVERLOAD:
            end.faults.append(f"{status} {code}: {words}")

    def _talk(self, step: Talk) -> End:
        key = base64.b64encode(bytes(16)).decode()
        lines = (f"GET {step.path} HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade")
        lines += (f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", "")
        with self._dial() as link:
            link.sendall("\r\n".join(lines).encode())
            head, rest = _head(link)
            if not head.startswith(b"HTTP/1.1 101"):
                return self.judged(Ask("GET", step.path), head + b"\r\n\r\n" + rest + _rest(link))
            data = _sent(link, step.body, patience=QUIET)
        return self._judge_frames(rest + (data or b""))

    def _judge_frames(self, data: bytes) -> End:
        end = End("none")
        for code, body in _frames(data):
            if code == talk.CLOSE:
                number = struct.unpack(">H", body[:2])[0] if len(body) >= 2 else 1005
                end.status = str(number)
                if number not in CLOSES:
                    end.faults.append(f"closed with {number}: {body[2:]!r}")
            elif code == talk.TEXT and b'"type": "error"' in body and (told := told_in(body)):
                end.code = told[0]
                self._judge_code(end, 0, told)
        return end


def request(ask: Ask) -> bytes:
    """The bytes of a request."""
    names = {name.lower() for name, _ in ask.headers}
    lines = [f"{ask.method} {ask.path} HTTP/1.1"]
    lines += [] if "host" in names else ["Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in ask.headers]
    lines.append("Connection: close")
    lines += [f"Content-Type: {ask.media}"] if ask.media else []
    if not names & {"content-length", "transfer-encoding"} and (ask.body or ask.method not in ("GET", "HEAD")):
        lines.append(f"Content-Length: {len(ask.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + ask.body


def _sent(link: socket.socket, data: bytes, patience: float = 0.0) -> bytes | None:
    """All that comes until the server closes. The server may close before it has read everything.

    The client stops sending when nothing has come for ``patience`` seconds, where it is not 0. None: reset, and
    nothing came. Raises TimeoutError.
    """

    def send() -> None:
        with contextlib.suppress(OSError):
            link.sendall(data)
            if not patience and _short(data):
                link.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send) if len(data) > 1 << 16 else None
    if sender:
        sender.start()
    else:
        send()
    try:
        return _read(link, patience)
    finally:
        if sender:
            sender.join()


def _short(data: bytes) -> bool:
    """Whether the request promises more bytes than it has: then the client ends it, as one that leaves."""
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: (\d+)", head.lower())
    return b"\r\ntransfer-encoding:" in head.lower() or bool(length and int(length[1]) > len(body))


def _read(link: socket.socket, patience: float) -> bytes | None:
    got, until = bytearray(), time.monotonic() + LIMIT
    link.settimeout(patience or LIMIT)
    while time.monotonic() < until:
        try:
            part = link.recv(1 << 16)
        except ConnectionResetError:
            return bytes(got) if got else None
        except TimeoutError:
            if not patience:
                raise
            link.settimeout(LIMIT)
            patience = 0.0
            with contextlib.suppress(OSError):  # the server has just closed it
                link.shutdown(socket.SHUT_WR)
            continue
        if not part:
            return bytes(got)
        got += part
    raise TimeoutError


def _rest(link: socket.socket) -> bytes:
    return _read(link, 0.0) or b""


def _head(link: socket.socket) -> tuple[bytes, bytes]:
    got = b""
    while b"\r\n\r\n" not in got and (part := link.recv(1 << 16)):
        got += part
    head, _, rest = got.partition(b"\r\n\r\n")
    return head, rest


def _unchunked(data: bytes) -> tuple[bool, bytes]:
    """Whether the last chunk came, and the contents of all."""
    out = b""
    while True:
        line, found, rest = data.partition(b"\r\n")
        if not found:
            return False, out
        size = int(line.split(b";")[0], 16)
        if not size:
            return True, out
        out, data = out + rest[:size], rest[size + 2 :]


def _frames(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while len(data) >= 2:
        size, start = data[1] & 0x7F, 2
        if size == 126:
            size, start = int.from_bytes(data[2:4], "big"), 4
        elif size == 127:
            size, start = int.from_bytes(data[2:10], "big"), 10
        found.append((data[0] & 15, data[start : start + size]))
        data = data[start + size :]
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
