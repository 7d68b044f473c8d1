"""``edgeserve top``: memory, models and pulls of the running server, live in a terminal."""

from __future__ import annotations

import contextlib
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import Any

from edgeserve.commands import Call
from edgeserve.commands.feed import Follower, Row, Shown, follow
from edgeserve.commands.manage import models_table
from edgeserve.commands.remote import server
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
    with contextlib.closing(follow(one)) as feed:
        first = next(feed)  # a wrong address is an error before the screen changes
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        print("\n".join(picture(first, one.url)))
        return 0
    follower = Follower(one, first)
    follower.start()
    try:
        with _screen():
            while True:
                _draw(follower, one.url)
                if select.select([sys.stdin], [], [], call.args.interval)[0] and sys.stdin.read(1) in END_KEYS:
                    return 0
    finally:
        follower.stop()


def picture(shown: Shown, url: str, now: float | None = None) -> Iterator[str]:
    """The lines to show: memory, models, pulls under way. ``now`` on the clock of ``shown``; None: as it was read."""
    sample = shown.sample
    used, total, budget = (
        human_size(size * MB)
        for size in (sample["total_mb"] - sample["available_mb"], sample["total_mb"], sample["budget_mb"])
    )
    yield f"{url}  memory {used} of {total}, budget {budget}"
    yield f"pressure {sample['pressure']} ({sample['percent']}% of the budget)"
    yield ""
    models = shown.aged(shown.at if now is None else now)
    yield from (models_table(models) or "no model is served").splitlines()
    under_way = [_pull(one) for one in shown.pulls if one["status"] not in ("success", "failed", "cancelled")]
    if under_way:
        yield ""
        yield from under_way


def _pull(one: Row) -> str:
    share = f" {one['done'] / one['total']:.0%}" if one["total"] else ""
    part = f" ({one['part']})" if one["part"] != one["model"] else ""
    return f"pull {one['model']}{part}: {one['status']}{share}"


def _draw(follower: Follower, url: str) -> None:
    """Draw over the last picture, cut to the terminal. A server that is gone leaves its words on the screen."""
    try:
        lines = list(picture(follower.latest(), url, time.monotonic()))
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
