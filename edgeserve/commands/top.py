"""``edgeserve top``: memory, models and pulls of the running server, live in a terminal."""

from __future__ import annotations

import contextlib
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.commands import Call
from edgeserve.commands.manage import Row, models_table
from edgeserve.commands.remote import Server, server
from edgeserve.errors import EdgeserveError
from edgeserve.terminal import human_size, is_terminal
from edgeserve.units import MB

OPEN, CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The terminal's second screen without a cursor, and back."""
HOME, REST, BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
"""To the first column and line; erase the rest of a line, and all lines below."""
END_KEYS = "qQ\x1b"


def top(call: Call) -> int:
    """Draw the server once a second until q or Ctrl-C. Without a terminal: print it once."""
    one = server(call)
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        print("\n".join(picture(*_ask(one), one.url)))
        return 0
    _ask(one)  # a wrong address is an error before the screen changes
    with _screen():
        while True:
            _draw(one)
            if select.select([sys.stdin], [], [], call.args.interval)[0] and sys.stdin.read(1) in END_KEYS:
                return 0


def _ask(one: Server) -> tuple[Row, Sequence[Row], Sequence[Row]]:
    stats, models = one.ask("GET", "/memory/stats"), one.ask("GET", "/memory/models")
    return stats, models, one.ask("GET", "/admin/pulls")["pulls"]


def picture(stats: Row, models: Sequence[Row], pulls: Sequence[Row], url: str) -> Iterator[str]:
    """The lines to show: memory, models, pulls under way."""
    sizes = {name: human_size(stats[name] * MB) for name in ("used_mb", "total_mb", "budget_usable_mb")}
    level, percent = stats["pressure_level"], stats["budget_used_percent"]
    yield f"{url}  memory {sizes['used_mb']} of {sizes['total_mb']}, budget {sizes['budget_usable_mb']}"
    yield f"pressure {level} ({percent:.0f}% of the budget)"
    yield ""
    yield from (models_table(models) or "no model is served").splitlines()
    under_way = [_pull(one) for one in pulls if one["status"] not in ("success", "failed", "cancelled")]
    if under_way:
        yield ""
        yield from under_way


def _pull(one: Row) -> str:
    share = f" {one['done'] / one['total']:.0%}" if one["total"] else ""
    part = f" ({one['part']})" if one["part"] != one["model"] else ""
    return f"pull {one['model']}{part}: {one['status']}{share}"


def _draw(one: Server) -> None:
    """Draw over the last picture, cut to the terminal. A server that is gone leaves its words on the screen."""
    try:
        lines = list(picture(*_ask(one), one.url))
    except EdgeserveError as error:
        lines = [error.message]
    columns, rows = shutil.get_terminal_size()
    shown = [*lines[: rows - 2], "", "q ends"]
    sys.stdout.write(HOME + "".join(f"{line[: columns - 1]}{REST}\r\n" for line in shown[:-1]) + shown[-1] + BELOW)
    sys.stdout.flush()


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """The second screen, with keys as they are pressed. Ctrl-C is still a signal."""
    keyboard: Any = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    sys.stdout.write(OPEN)
    try:
        tty.setcbreak(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        sys.stdout.write(CLOSE)
        sys.stdout.flush()
