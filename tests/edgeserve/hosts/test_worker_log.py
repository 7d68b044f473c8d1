"""Lines of workers in the server's log."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from edgeserve.hosts.worker_log import ToServer, relay
from edgeserve.logs import Folding


class Direct:
    """A channel whose other end relays at once."""

    def send(self, kind: Any, number: int, head: Any) -> None:
        relay(head)


def test_warnings_of_a_worker_that_differ_in_numbers_alone_are_folded(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk gives one for each conversation."""
    folding, sender = Folding(limit=3), ToServer(Direct())  # type: ignore[arg-type]
    caplog.handler.addFilter(folding)
    text = "a conversation's state of %d MB cannot be kept on disk: %s"
    for size in range(50):
        sender.emit(logging.LogRecord("edgeserve", logging.WARNING, "", 0, text, (size, "full"), None))
    caplog.handler.removeFilter(folding)
    assert caplog.messages == [text % (size, "full") for size in range(3)]
    assert [kind[2] for kind in folding.kinds()] == [text]
