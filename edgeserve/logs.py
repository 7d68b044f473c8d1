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
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")
"""Id of the request being served; "-" outside of one. The gate carries it over to the engine's worker thread."""


Kind = tuple[str, int, str, type[BaseException] | None]
CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
"""Control characters, those of line and paragraph, of direction and of no width, and halves of a pair."""
LONGEST = 4096
"""Characters of a line: a path may have 16,000 of them, and a field megabytes."""
CONTINUED = "  | "
"""Before each further line of a traceback, so that none looks like a record of its own."""


def shortened(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def escaped(text: str) -> str:
    """``text`` in one line of visible characters, in the spelling of Python's and JSON's strings."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class PlainFormatter(logging.Formatter):
    default_time_format = "%H:%M:%S"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s [%(request_id)s] %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return escaped(shortened(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        lines = super().formatException(ei).split("\n")
        return "\n".join(CONTINUED + escaped(shortened(line)) for line in lines)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "message": shortened(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escaped(json.dumps(line, ensure_ascii=False))


class Folding(logging.Filter):
    """Lets ``limit`` warnings or errors of one kind through in ``seconds``, and counts the others.

    A kind is a logger, a text before its values are filled in, and the type of an exception. Clock in seconds.
    """

    def __init__(
        self, limit: int = 10, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic, most: int = 256
    ) -> None:
        super().__init__()
        self._limit, self._seconds, self._clock, self._most = limit, seconds, clock, most
        self._seen: dict[Kind, list[float]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or hasattr(record, "folded"):
            return True
        kind = (record.name, record.levelno, str(record.msg), record.exc_info[0] if record.exc_info else None)
        with self._lock:
            if len(self._seen) >= self._most and kind not in self._seen:
                return True
            seen = self._seen.setdefault(kind, [self._clock(), 0])
            seen[1] += 1
            return seen[1] <= self._limit

    def kinds(self) -> tuple[Kind, ...]:
        """Those that are counted now."""
        return tuple(self._seen)

    def repeated(self) -> list[logging.LogRecord]:
        """One record for each kind whose time is over and of which some were left out."""
        with self._lock:
            due = {kind: seen for kind, seen in self._seen.items() if self._clock() - seen[0] >= self._seconds}
            for kind in due:
                del self._seen[kind]
        return [self._record(kind, int(count) - self._limit) for kind, (_, count) in due.items() if count > self._limit]

    def _record(self, kind: Kind, count: int) -> logging.LogRecord:
        name, level, text, _ = kind
        told = f"repeated {count:,} more times in the last {self._seconds:g} s: {text}"
        record = logging.LogRecord(name, level, "", 0, told, None, None)
        record.folded = True
        return record


class FoldingHandler(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO, folding: Folding | None = None) -> None:
        super().__init__(stream)
        self.folding = folding or Folding()
        self.addFilter(self.folding)
        self.addFilter(_add_request_id)

    def tell(self) -> None:
        """Write how often the lines that were left out came."""
        for record in self.folding.repeated():
            self.handle(record)


def tell_repeated() -> None:
    """Called once a second by the process that serves."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, FoldingHandler):
            handler.tell()


def _add_request_id(record: logging.LogRecord) -> bool:
    record.request_id = request_id.get()
    return True


def configure(level: str, *, as_json: bool = False) -> None:
    """Send all log lines at ``level`` and above to stderr. Called once, by the process that serves."""
    handler = FoldingHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Uvicorn's own start and stop lines repeat what we say in our words.
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, root.level))
