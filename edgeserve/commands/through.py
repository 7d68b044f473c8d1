"""Pulls that a running server does, watched from here."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from edgeserve.commands.remote import Server
from edgeserve.errors import EdgeserveError
from edgeserve.terminal import ProgressBar, Unit, human_size


def pull_each(server: Server, names: Sequence[str]) -> int:
    """Let the server pull models one after the other; returns 1 when a pull failed.

    Ctrl-C ends the pull under way, unless another client waits for it.
    """
    failed = 0
    for name in names:
        try:
            print(_pull(server, name))
        except EdgeserveError as error:
            failed += 1
            print(f"[ERROR] {' '.join(error.message.split())}", file=sys.stderr)
    return 1 if failed else 0


def _pull(server: Server, name: str) -> str:
    """Follow one pull to its end; returns the line about it. Raises EdgeserveError."""
    last: dict[str, Any] = {}
    events = server.events("POST", "/admin/pull", {"model": name})
    with ProgressBar(sys.stderr) as bar, contextlib.closing(events):
        for last in events:
            _show(bar, last)
    if "error" in last:
        raise EdgeserveError(last["error"]["message"])
    if last.get("status") != "success":
        raise EdgeserveError(f"{name}: the pull ended as {last.get('status', 'nothing')}; pull again to go on")
    return f"{last['model']}: pulled, {human_size(last['size_bytes'])}, licence {last['licence']}"


def _show(bar: ProgressBar, state: dict[str, Any]) -> None:
    if state["status"] in ("success", "failed", "cancelled"):
        return
    unit: Unit = "bytes" if state["status"] in ("download", "verify") else "share"
    bar.update(f"{state['part']}: {state['status']}", state["done"], state["total"], unit)
