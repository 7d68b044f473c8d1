"""Turns of TLS: its bytes cost far more than others, and ask for no key of the server."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any, cast

import pytest
from support.server import trusting
from support.tls import made, needs_openssl
from uvicorn.server import ServerState

from edgeserve.connections import Connections, Patience
from edgeserve.protocols.reading import READS, Reading
from edgeserve.protocols.tls import BUFFER_BYTES, PIECE_BYTES, TlsConnection, TlsDoor
from edgeserve.tls.certificate import Certificate

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(made(tmp_path_factory.mktemp("tls")))


class Wire(asyncio.Transport):
    """The encrypted side of a connection that asyncio serves: what the server writes, and whether it reads."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1)})
        self.sent, self.reads, self.protocol = ssl.MemoryBIO(), True, cast(Any, None)

    def write(self, data: Any) -> None:
        self.sent.write(data)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_write_buffer_size(self) -> int:
        return self.sent.pending

    def receive(self, data: bytes) -> None:
        """Bytes of the client have come."""
        for start in range(0, len(data), BUFFER_BYTES):
            piece = data[start : start + BUFFER_BYTES]
            self.protocol.get_buffer(-1)[: len(piece)] = piece
            self.protocol.buffer_updated(len(piece))


class Above(asyncio.Protocol):
    """Notes what comes out of TLS."""

    got, transport = b"", cast(Any, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data


class Client:
    """A client of TLS, and the connection that the server serves for it."""

    def __init__(self, certificate: Certificate, reading: Reading, connections: Connections) -> None:
        self.wire, self.above, self.out = Wire(), Above(), ssl.MemoryBIO()
        self.tls = trusting(certificate.path).wrap_bio(self.wire.sent, self.out, server_hostname="localhost")
        door: Any = TlsDoor(
            certificate,
            lambda **_: self.above,
            connections,
            Patience(),
            reading=reading,
            server_state=ServerState(),
        )
        self.wire.set_protocol(door)
        door.connection_made(self.wire)

    @property
    def is_answered(self) -> bool:
        return isinstance(self.wire.protocol, TlsConnection)

    def hello(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        self.wire.receive(self.out.read())

    def end(self) -> None:
        self.wire.protocol.connection_lost(None)

    async def shake_hands(self) -> None:
        self.hello()
        for _ in range(10):
            await asyncio.sleep(0)
            if self.above.transport is None:
                self.hello()

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        self.wire.receive(self.out.read())


async def turns(count: int = 30) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_handshakes_that_come_at_once_take_turns(certificate: Certificate) -> None:
    """Some 250 of one client would else hold the event loop for a second."""

    async def main() -> None:
        reading, connections = Reading(), Connections(64)
        clients = [Client(certificate, reading, connections) for _ in range(10)]
        for one in clients:
            one.hello()
        assert sum(one.is_answered for one in clients) <= READS
        await turns()
        assert all(one.is_answered for one in clients)
        for one in clients:
            one.end()

    asyncio.run(main())


def test_encrypted_bytes_are_read_in_small_pieces_and_in_their_order(certificate: Certificate) -> None:
    """They may be changes of keys, of which 32 KB take 24 ms."""
    texts = [bytes([one]) * 3000 for one in range(10)]

    async def main() -> None:
        client = Client(certificate, Reading(), Connections(64))
        await client.shake_hands()
        for one in texts:
            client.tls.write(one)
        client.wire.receive(client.out.read())
        assert len(client.above.got) <= READS * PIECE_BYTES
        await turns()
        assert client.above.got == b"".join(texts)
        assert client.wire.reads
        client.end()

    asyncio.run(main())


def test_nothing_is_read_from_a_client_that_does_not_read(certificate: Certificate) -> None:
    """TLS answers changes of keys by itself, so the answers of a client that sends them would pile up without end."""

    async def main() -> None:
        client = Client(certificate, Reading(), Connections(64))
        await client.shake_hands()
        client.wire.protocol.pause_writing()  # as asyncio does when 64 KB wait
        assert not client.wire.reads
        client.above.transport.pause_reading()
        client.send(bytes(2 * BUFFER_BYTES))  # had come before; fills the buffer of TLS, too
        await turns()
        client.above.transport.resume_reading()
        await turns()
        assert len(client.above.got) == 2 * BUFFER_BYTES
        assert not client.wire.reads
        client.wire.protocol.resume_writing()
        assert client.wire.reads
        client.end()

    asyncio.run(main())
