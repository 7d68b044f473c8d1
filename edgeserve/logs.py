"""Log lines for people or, with ``log_json``, one JSON object a line; each names the request that it belongs to.

Messages hold what clients sent: a path, a field. So characters that would begin another line, colour a terminal or
turn the direction of writing are escaped in every line.
"""

from __future__ import annotations

import contextvars
import json
import logging
import re
import sys
import time
from typing import Any

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")
"""Id of the request being served; "-" outside of one. The gate carries it over to the engine's worker thread."""


CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
"""Control characters, those of line and paragraph, of direction and of no width, and halves of a pair."""
CONTINUED = "  | "
"""Before each further line of a traceback, so that none looks like a record of its own."""


def escaped(text: str) -> str:
    """``text`` in one line of visible characters, in the spelling of Python's and JSON's strings."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class PlainFormatter(logging.Formatter):
    default_time_format = "%H:%M:%S"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s [%(request_id)s] %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        lines = super().formatException(ei).split("\n")
        return "\n".join(CONTINUED + escaped(line) for line in lines)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escaped(json.dumps(line, ensure_ascii=False))


def _add_request_id(record: logging.LogRecord) -> bool:
    record.request_id = request_id.get()
    return True


def configure(level: str, *, as_json: bool = False) -> None:
    """Send all log lines at ``level`` and above to stderr. Called once, by the process that serves."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    handler.addFilter(_add_request_id)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Uvicorn's own start and stop lines repeat what we say in our words.
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, root.level))
