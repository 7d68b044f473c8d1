"""The connection to ``/v1/realtime`` of a server: events both ways."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from edgeserve.commands.remote import Server, read_answer
from edgeserve.errors import EdgeserveError, NotSupported
from edgeserve.logs import escaped

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

PATH = "/v1/realtime"
ABSENT = (400, 404, 405, 426, 501)
"""Statuses of servers that know no such route."""
OPEN_SECONDS = 20.0
"""Time in which the server must accept the connection."""


class Line:
    """One session. Any thread may send; one thread reads."""

    def __init__(self, connection: ClientConnection, url: str) -> None:
        self._connection, self._url = connection, url

    def send(self, kind: str, **fields: Any) -> None:
        """Raises EdgeserveError where the server has ended the session."""
        from websockets.exceptions import ConnectionClosed

        try:
            self._connection.send(json.dumps({"type": kind, **fields}))
        except ConnectionClosed as error:
            raise _ended(error) from None

    def events(self) -> Iterator[dict[str, Any]]:
        """Events as they come. A terminal may show their texts. Raises EdgeserveError at the session's end."""
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                yield read_answer(self._connection.recv(), self._url)
        except ConnectionClosed as error:
            raise _ended(error) from None


@contextlib.contextmanager
def open_line(server: Server) -> Iterator[Line]:
    """Raises NotSupported where the server has no such route, and EdgeserveError where it refuses or is not there."""
    from websockets.exceptions import InvalidHandshake, InvalidStatus
    from websockets.sync.client import connect

    parts = urlsplit(server.url)
    encrypted = parts.scheme == "https"
    url = parts._replace(scheme="wss" if encrypted else "ws", path=parts.path.rstrip("/") + PATH).geturl()
    try:
        # A socket of its own, since the library would ask a proxy of the environment.
        link = socket.create_connection((parts.hostname or "", parts.port or (443 if encrypted else 80)), OPEN_SECONDS)
        connection = connect(
            url,
            sock=link,
            ssl=server.context() if encrypted else None,
            additional_headers=server.headers(),
            compression=None,
            open_timeout=OPEN_SECONDS,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        if status in ABSENT:
            raise NotSupported(f"{server.url} has no {PATH}; it answered {status}") from None
        raise EdgeserveError(_refusal(server.url, status, error.response.body)) from None
    except (OSError, InvalidHandshake) as error:
        raise EdgeserveError(f"no conversation with {server.url}: {error}") from error
    with connection:
        yield Line(connection, server.url)


def _ended(error: Any) -> EdgeserveError:
    reason = error.rcvd.reason if error.rcvd else ""
    return EdgeserveError(f"the server ended the conversation: {escaped(str(reason or error))}")


def _refusal(url: str, status: int, body: bytes | bytearray | None) -> str:
    try:
        return str(read_answer(body or b"", url)["error"]["message"])
    except (EdgeserveError, KeyError, TypeError):
        return f"{url}{PATH} answered {status}"
