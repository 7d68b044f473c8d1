"""The free memory of a machine, asked of its worker: two questions of llama.cpp's protocol, without llama.cpp.

The protocol is version 7 of ggml/src/ggml-rpc/ggml-rpc.cpp. A question is a command (1 byte), the length of its body
(8 bytes) and the body. The reply is its length and its body. Numbers are little-endian.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time

from edgeserve.dataclass import dataclass
from edgeserve.errors import Unreachable

MAJOR = 7
HELLO, DEVICE_MEMORY = 14, 11
CAPABILITIES = 24
"""Bytes of the capabilities in a hello; zeros mean plain TCP."""
SECONDS = 3.0
"""Time for a worker to answer. It has one client at a time, and lets others wait."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Free and total bytes that a worker offers."""

    free: int
    total: int


class Silent(Unreachable):
    """A worker takes connections, and answers none now: it has one client at a time."""


def ask(endpoint: str, seconds: float = SECONDS) -> Offer:
    """The offer of the worker at "address:port". Blocks for ``seconds`` at most. Raises Unreachable and Silent."""
    host, _, port = endpoint.rpartition(":")
    until = time.monotonic() + seconds
    try:
        with contextlib.closing(socket.create_connection((host, int(port)), timeout=seconds)) as line:
            major, *_ = _question(line, HELLO, bytes(CAPABILITIES), "<BBBB", until, CAPABILITIES)
            if major != MAJOR:
                text = f"speaks version {major} of llama.cpp's protocol, and this machine version {MAJOR}"
                raise Unreachable(f"{endpoint} {text}: install the same version of edgeserve on both")
            return Offer(*_question(line, DEVICE_MEMORY, struct.pack("<I", 0), "<QQ", until))
    except TimeoutError:
        text = "it serves another model now, hangs, or is no edgeserve rpc-worker"
        raise Silent(f"{endpoint} does not answer within {seconds:g} s: {text}") from None
    except (OSError, struct.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        text = f"cannot be reached ({reason}): start `edgeserve rpc-worker` there"
        raise Unreachable(f"{endpoint} {text}") from None


def _question(
    line: socket.socket, command: int, body: bytes, form: str, until: float, more: int = 0
) -> tuple[int, ...]:
    """The numbers of a reply of the form ``form``; ``more`` bytes that nobody needs follow them."""
    line.sendall(struct.pack("<BQ", command, len(body)) + body)
    size = struct.calcsize(form)
    (length,) = struct.unpack("<Q", _receive(line, 8, until))
    if length != size + more:
        raise struct.error(f"a reply of {length} bytes, where llama.cpp's has {size + more}")
    return struct.unpack(form, _receive(line, size + more, until)[:size])


def _receive(line: socket.socket, size: int, until: float) -> bytes:
    """So many bytes. Raises TimeoutError after ``until``, and ConnectionError at an early end."""
    found = bytearray()
    while len(found) < size:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        line.settimeout(left)
        part = line.recv(size - len(found))
        if not part:
            raise ConnectionResetError("it has closed the connection")
        found += part
    return bytes(found)
