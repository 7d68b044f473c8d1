"""Output for people: sizes, tables, a progress bar. Without a terminal, plain lines."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from typing import Literal, TextIO

REDRAW_SECONDS = 0.1
"""Time between two pictures of the bar in a terminal."""
REPORT_SECONDS = 10.0
"""Time between two progress lines in a log."""

Unit = Literal["bytes", "seconds", "share"]
UNITS = ("bytes", "KB", "MB", "GB", "TB")


def human_size(count: float) -> str:
    """Bytes in a readable unit; a KB has 1,024 bytes, as everywhere in this program."""
    value, power = float(count), 0
    while abs(value) >= 1024 and power < len(UNITS) - 1:
        value, power = value / 1024, power + 1
    digits = 1 if power and abs(value) < 10 else 0
    return f"{value:.{digits}f} {UNITS[power]}"


def human_time(seconds: float) -> str:
    """Seconds as "8 s", "1 min 20 s" or "2 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None = None) -> str:
    """Rows as text, without lines. Columns are as wide as their widest cell; heads are in capitals.

    ``columns``: a longer line is cut there, and ends in "…".
    """
    lines = [[head.upper() for head in heads], *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(_cut(line.rstrip(), columns) for line in padded)


def _cut(line: str, columns: int | None) -> str:
    return line if columns is None or len(line) <= columns else f"{line[: columns - 1]}…"


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal; False for a closed or missing stream."""
    return stream is not None and not stream.closed and stream.isatty()


def columns(stream: TextIO) -> int | None:
    """Width of a terminal in characters; None for any other stream, whose lines may be of any length."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else None


class ProgressBar:
    """Progress and speed of a step: one redrawn line in a terminal, else a plain line now and then.

    A new label begins a new line. ``update`` may be called at any rate.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._redraws = is_terminal(out)
        self._label = ""
        self._started = 0.0
        self._first_done = 0.0
        self._shown_at = 0.0
        self._shown = ""
        self._latest = ""

    def update(self, label: str, done: float, total: float, unit: Unit = "bytes") -> None:
        """Show ``done`` of ``total``; a total of 0 or less is unknown."""
        now = self._clock()
        begins = label != self._label
        if begins:
            self.close()
            self._label, self._started, self._first_done = label, now, done
        self._latest = self._line(done, total, now - self._started, unit)
        pause = REDRAW_SECONDS if self._redraws else REPORT_SECONDS
        says_more = self._redraws or self._latest != self._shown
        if begins or (says_more and now - self._shown_at >= pause):
            self._show(now)

    def close(self) -> None:
        """Show the end of the last step, and end its line. Idempotent."""
        if self._label:
            if self._latest != self._shown:
                self._show(self._clock())
            if self._redraws:
                self._out.write("\n")
                self._out.flush()
        self._label = self._latest = self._shown = ""

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def _show(self, now: float) -> None:
        if self._redraws:
            width = shutil.get_terminal_size().columns - 1
            # Blanks wipe out the rest of a longer line.
            self._out.write("\r" + self._latest[:width].ljust(width))
        else:
            self._out.write(self._latest + "\n")
        self._out.flush()
        self._shown, self._shown_at = self._latest, now

    def _line(self, done: float, total: float, seconds: float, unit: Unit) -> str:
        human = human_time if unit == "seconds" else human_size
        if total <= 0:
            return f"{self._label}  {human(done)}" if done else self._label
        part = min(1.0, done / total)
        bar = f"[{'=' * int(20 * part):20}] " if self._redraws else ""
        line = f"{self._label}  {bar}{part:.0%}"
        if unit == "share":
            return line
        line += f" of {human(total)}"
        gained = done - self._first_done
        if seconds < 1 or gained <= 0:
            return line
        rate = gained / seconds
        speed = "" if unit == "seconds" else f"  {human_size(rate)}/s"
        left = f", {human_time((total - done) / rate)} left" if done < total else f" in {human_time(seconds)}"
        return f"{line}{speed}{left}"
