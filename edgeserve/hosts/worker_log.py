"""Log lines of a worker, which the serving process writes with its own."""

from __future__ import annotations

import logging
from typing import Any

from edgeserve import logs
from edgeserve.processes.frames import Channel, Kind

LONGEST_NAME, LONGEST_TEXT = 100, 16_384
"""Characters of a worker's line that are kept."""


class ToServer(logging.Handler):
    """Sends log lines to the serving process, which writes them with its own."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text, form = self.format(record)[:LONGEST_TEXT], str(record.msg)[:LONGEST_TEXT]
            line = [record.levelno, record.name, text, logs.request_id.get(), form]
            self._channel.send(Kind.LOG, 0, line)
        except OSError:
            self.handleError(record)


def relay(head: Any) -> None:
    """Log a line of a worker, as a line of this process. Raises ValueError and TypeError for what is none."""
    level, name, text, log_id, form = head
    if not isinstance(level, int):
        raise TypeError(f"a log line of level {type(level).__name__}")
    name = str(name)[:LONGEST_NAME]
    record = logging.LogRecord(name, level, "", 0, str(text)[:LONGEST_TEXT], None, None)
    record.form = str(form)[:LONGEST_TEXT]
    token = logs.request_id.set(str(log_id)[:LONGEST_NAME])
    try:
        logger = _logger(name)
        if logger.isEnabledFor(level):
            logger.handle(record)
    finally:
        logs.request_id.reset(token)


def _logger(name: str) -> logging.Logger:
    """The nearest logger that this process has. A new one would stay for ever, and a worker may make up names."""
    known = logging.Logger.manager.loggerDict
    while name and not isinstance(known.get(name), logging.Logger):
        name = name.rpartition(".")[0]
    return logging.getLogger(name or None)
