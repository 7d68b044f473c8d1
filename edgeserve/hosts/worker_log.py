"""Log lines of a worker, which the serving process writes with its own."""

from __future__ import annotations

import logging
from typing import Any

from edgeserve import logs
from edgeserve.processes.frames import Channel, Kind


class ToServer(logging.Handler):
    """Sends log lines to the serving process, which writes them with its own."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = [record.levelno, record.name, self.format(record), logs.request_id.get()]
            self._channel.send(Kind.LOG, 0, line)
        except OSError:
            self.handleError(record)


def relay(head: Any) -> None:
    """Log a line of a worker, as a line of this process. Raises ValueError and TypeError for what is none."""
    level, name, text, log_id = head
    record = logging.LogRecord(str(name), int(level), "", 0, str(text), None, None)
    token = logs.request_id.set(str(log_id))
    try:
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)
    finally:
        logs.request_id.reset(token)
