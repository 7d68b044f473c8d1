"""The question for free memory: an answer, or words about the reason why there is none."""

from __future__ import annotations

import socket
import struct

import pytest
from support.rpc_server import FREE, TOTAL, rpc_server

from edgeserve.errors import EngineFailure
from edgeserve.splits.asking import Offer, ask


def test_the_free_memory_of_a_worker() -> None:
    with rpc_server() as endpoint:
        assert ask(endpoint) == Offer(FREE, TOTAL)
        assert ask(endpoint) == Offer(FREE, TOTAL)  # the connection before was closed


@pytest.mark.parametrize(
    "reply",
    [
        struct.pack("<Q", 1 << 62),
        struct.pack("<Q", 3) + b"abc",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_who_speaks_another_protocol_is_no_worker(reply: bytes) -> None:
    with rpc_server(reply) as endpoint, pytest.raises(EngineFailure, match=r"a reply of [0-9]+ bytes.*rpc-worker"):
        ask(endpoint)


def test_a_worker_of_another_version() -> None:
    with rpc_server(major=6) as endpoint, pytest.raises(EngineFailure, match=r"version 6 .*same version"):
        ask(endpoint)


def test_a_silent_worker_costs_no_more_than_the_time_given() -> None:
    with rpc_server(b"") as endpoint, pytest.raises(EngineFailure, match=r"within 0.05 s: it serves another model"):
        ask(endpoint, 0.05)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(EngineFailure, match=r"refused.*start `edgeserve rpc-worker` there"):
        ask(f"127.0.0.1:{port}")
