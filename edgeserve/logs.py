"""Log lines for people or, with ``log_format = "json"``, one JSON object a line. Each line names its request.

Messages hold text of clients: a path, a field. So every line escapes characters that would begin another line, colour
a terminal or turn the direction of writing.
"""

from __future__ import annotations

import contextvars
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TextIO

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")
"""Id of the request, or "-" outside of a request. The gate passes it to the engine's worker thread."""
NOTHING: Mapping[str, object] = MappingProxyType({})
about: contextvars.ContextVar[Mapping[str, object]] = contextvars.ContextVar("about", default=NOTHING)
"""Keys of every line of the request in JSON: its trace, and the model that it asks. They may grow meanwhile."""

Kind = tuple[str, int, str, type[BaseException] | None]
CONTROL = "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
"""Control characters, separators of lines and paragraphs, characters of direction or no width, and surrogates."""
LONGEST = 4096
"""Characters of a log line. A path may have 16,000 characters, and a field megabytes."""
LONGEST_TRACEBACK = 16 * LONGEST
"""Characters of a traceback. The message of an exception may quote a request, in any number of lines."""
CONTINUED = "  | "
"""Prefix of a traceback's further lines, so that none looks like a record of its own."""


def shortened(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def escaped(text: str) -> str:
    """``text`` as one line of visible characters, escaped as in Python and JSON strings."""
    return re.sub(CONTROL, lambda found: f"\\u{ord(found[0]):04x}", text)


class BoundedFormatter(logging.Formatter):
    """Bounds the text of a traceback, whose beginning and end stay."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's own name
        text = super().formatException(ei)
        if len(text) > LONGEST_TRACEBACK:
            half = LONGEST_TRACEBACK // 2
            text = f"{text[:half]}…\n…{text[-half:]}"
        return text


class PlainFormatter(BoundedFormatter):
    """Local time; in brackets the request, and the trace that it belongs to."""

    default_time_format = "%Y-%m-%d %H:%M:%S"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s [%(request_id)s%(trace)s] %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        trace = getattr(record, "about", NOTHING).get("trace_id")
        record.trace = f" {trace}" if trace else ""
        return escaped(shortened(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's own name
        lines = super().formatException(ei).split("\n")
        return "\n".join(CONTINUED + escaped(shortened(line)) for line in lines)


class JsonFormatter(BoundedFormatter):
    """One object a line. ``figures`` of a record are keys of their own (docs/metrics.md)."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "msg": shortened(record.getMessage()),
            **getattr(record, "about", NOTHING),
            **getattr(record, "figures", NOTHING),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escaped(json.dumps(line, ensure_ascii=False))


class Folding(logging.Filter):
    """Passes ``limit`` warnings or errors of one kind in ``seconds``, and counts the rest.

    A kind is a logger, a format string, and the type of an exception.
    """

    def __init__(
        self, limit: int = 10, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic, most: int = 256
    ) -> None:
        super().__init__()
        self._limit, self._seconds, self._clock, self._most = limit, seconds, clock, most
        self._seen: dict[Kind, list[float]] = {}
        self._lock = threading.RLock()  # a collection may log of what it collects, in the midst of counting

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or hasattr(record, "folded"):
            return True
        form = getattr(record, "form", str(record.msg))  # a worker's line comes with its own
        kind = (record.name, record.levelno, form, record.exc_info[0] if record.exc_info else None)
        with self._lock:
            if len(self._seen) >= self._most and kind not in self._seen:
                return True
            seen = self._seen.setdefault(kind, [self._clock(), 0])
            seen[1] += 1
            return seen[1] <= self._limit

    def kinds(self) -> tuple[Kind, ...]:
        """Kinds that are being counted."""
        return tuple(self._seen)

    def repeated(self) -> list[logging.LogRecord]:
        """One record for each kind whose time is over and that has suppressed lines."""
        with self._lock:
            seen_now = self._seen.copy()
            due = {kind: seen for kind, seen in seen_now.items() if self._clock() - seen[0] >= self._seconds}
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
        self.addFilter(add_request)

    def tell(self) -> None:
        """Log how many lines of each kind were suppressed."""
        for record in self.folding.repeated():
            self.handle(record)


def tell_repeated() -> None:
    """Log suppressed lines; the server calls this once a second."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, FoldingHandler):
            handler.tell()


def add_request(record: logging.LogRecord) -> bool:
    """A filter that adds its request to each record."""
    record.request_id, record.about = request_id.get(), dict(about.get())
    return True


FORMATS: Mapping[str, type[logging.Formatter]] = MappingProxyType({"plain": PlainFormatter, "json": JsonFormatter})


def configure(level: str, form: str = "plain") -> None:
    """Send all log lines of ``level`` and above to stderr, in a form of ``FORMATS``. The process calls this once."""
    handler = FoldingHandler(sys.stderr)
    handler.setFormatter(FORMATS[form]())
    logging.getLogger().handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    """Log lines of ``level`` and above from now on."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    # Uvicorn's start and stop lines repeat lines of ours.
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, root.level))
