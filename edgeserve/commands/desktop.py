"""The server's page in the browser of this machine, where it has a desktop."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
OPENER = (sys.executable, "-P", "-m", "webbrowser", "-t")
"""Python's own module, whatever lies in the working directory (``-P``)."""

Start = Callable[[Sequence[str]], object]


def there(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether programs can show windows here. Without a desktop, the browser would be one of text in this terminal."""
    return platform == "darwin" or any(environ.get(name) for name in DISPLAYS)


def show(address: str, environ: Mapping[str, str], start: Start | None = None, platform: str = sys.platform) -> str:
    """Ask the desktop to open an address; the line to print. Never waits for the browser."""
    if not there(environ, platform):
        return f"This machine has no desktop; open {address} in a browser"
    (start or _start)([*OPENER, address])
    return f"Opening {address}; if no window appears, open it in a browser"


def _start(words: Sequence[str]) -> None:
    # A browser that this call starts may live as long as this process, and must hold neither its input nor its log.
    null = subprocess.DEVNULL
    child = subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True)  # noqa: S603
    threading.Thread(target=child.wait, name="browser", daemon=True).start()
