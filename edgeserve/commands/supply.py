"""Configured models that are missing: ``edgeserve serve`` pulls them before it begins, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

from edgeserve.commands import Call
from edgeserve.config import Config
from edgeserve.errors import ModelDamaged, ModelMissing, ModelUnknown, StoreError
from edgeserve.models import catalog
from edgeserve.models.store import Store
from edgeserve.processes.interpreter import search_path
from edgeserve.system.notify import MICROSECONDS, Notifier
from edgeserve.terminal import human_size

ELSEWHERE = "EDGESERVE_URL"
"""The variable that makes ``edgeserve pull`` ask a server."""
STDERR = 2
LOOK_SECONDS = 30.0
"""Time between two requests for more time."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def missing(config: Config, store: Store) -> list[str]:
    """Configured models that are missing or damaged, and that a pull can bring; each once."""
    return list(dict.fromkeys(_missing(config, store)))


def _missing(config: Config, store: Store) -> Iterator[str]:
    for name in (one for settings in config.models.values() for one in settings.named):
        if not (catalog.knows(name) or name.startswith(("hub:", "http://", "https://"))):
            continue  # a path: nothing can be pulled from it
        try:
            store.find(name)
        except ModelUnknown:  # no pull can bring it; the server reports it
            continue
        except (ModelMissing, ModelDamaged):
            yield name
        except StoreError:  # another model of this name; the same, with the remedy
            continue


def announcement(names: Sequence[str]) -> str:
    """One line about a pull of these models, with their size where the catalogue knows it."""
    known = [catalog.find(name).size_bytes for name in names if catalog.knows(name)]
    size = f", about {human_size(sum(known))}" if known else ""
    return f"[INFO] not on this device: {', '.join(names)}{size}; pulling (--no-pull ends instead)"


def command(call: Call, names: Sequence[str]) -> list[str]:
    """The command that pulls the models with the settings of this call."""
    # The modules must be those of this process, whatever lies in the working directory.
    code = f"import sys; sys.path[:] = {search_path()!a}; from edgeserve.__main__ import run; sys.exit(run())"
    settings = [] if call.args.config is None else ["--config", call.args.config]
    return [sys.executable, "-c", code, "pull", *settings, *names]


def pull(call: Call, names: Sequence[str]) -> int:
    """Pull the models and wait. Returns the exit code after a signal, which ends the pull first, else 0.

    A failure shows on stderr, and the server then names the models that it misses. The libraries of a pull stay out of
    the serving process, which would keep them.
    """
    print(announcement(names), file=sys.stderr, flush=True)
    ended_by = run(command(call, names), {name: value for name, value in call.environ.items() if name != ELSEWHERE})
    return 128 + ended_by if ended_by else 0


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command to its end, with its output on stderr; the number of the signal that this process got, or 0."""
    got: list[int] = []
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=STDERR, env=environ)  # noqa: S603 - our own

    def end(number: int, frame: FrameType | None) -> None:
        got.append(number)
        child.send_signal(number)

    taken = [one for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]  # as nohup leaves SIGHUP
    before = {one: signal.signal(one, end) for one in taken}
    try:
        wait(child, Notifier(environ))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return got[0] if got else 0


def wait(child: subprocess.Popen[bytes], manager: Notifier, look_seconds: float = LOOK_SECONDS) -> None:
    """Wait for the child. A service manager is asked for more time, again and again: a large model takes an hour."""
    if manager:
        manager.tell("STATUS=pulling models")
    while True:
        try:
            child.wait(look_seconds if manager else None)
            return
        except subprocess.TimeoutExpired:
            manager.tell(f"EXTEND_TIMEOUT_USEC={int(3 * look_seconds * MICROSECONDS)}")
