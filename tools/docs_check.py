"""Docs, checked: links that lead nowhere, and the code blocks of all pages.

    python tools/docs_check.py            links of all pages, then their blocks
    python tools/docs_check.py --links    links alone

Blocks run in order, as written, in a temporary folder, with the command ``edgeserve`` of ``.venv`` on the path. A
command that serves stays up for the blocks after it. Words above a block change that:

    <!-- alone -->            it has a home and a network of its own, and its servers end with it
    <!-- not run: REASON -->  it does not run; the reason is printed

The end tells how many blocks ran, and the reasons of the others. The exit code is 1 when anything failed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import docs_pages
from docs_pages import LONG, SERVES, Block, scripts

from edgeserve.models.folder import default_root

HEALTH = "http://127.0.0.1:8080/v1/health"

START_SECONDS = 900.0
"""Longest start of a server: ``make serve`` may have to build llama.cpp."""
COMMAND_SECONDS = 600.0
LOOK_EVERY = 0.2
"""Seconds between two looks whether the server is up."""

NETWORK = ("unshare", "--user", "--map-root-user", "--net")
"""A network with nothing but a loopback device. Some systems let only root make one."""
START = """ip link set lo up
trap 'kill $(jobs -p) 2>/dev/null && wait || :' EXIT
up() { until grep -q ' serves on ' server.log; do kill -0 $! || { cat server.log; exit 1; }; sleep 0.2; done; }"""
SETTINGS = "import os, pathlib; from edgeserve import config; config.load(os.environ, path=pathlib.Path('models.toml'))"


class Session:
    """Runs blocks one after the other; keeps at most one server up between them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        path = f"{docs_pages.ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        self._environ = {**os.environ, "PATH": path, "EDGESERVE_STATES_DIR": str(folder / "states")}

    def run(self, block: Block) -> Iterator[str]:
        """Yields each failure of a block, with its place."""
        if block.excuse:
            print(f"{block.place}: not run: {block.excuse}")
        elif block.alone:
            yield from self._alone(block)
        elif block.kind == "sh":
            for script in scripts(block.code):
                yield from self._script(block, script)
        elif block.kind == "python":
            yield from self._finish(block, "the program", [sys.executable, "-c", block.code])
        elif block.kind == "toml":
            path = self._folder / "models.toml"
            path.write_text(block.code, encoding="utf-8")
            yield from self._finish(block, "the settings", [sys.executable, "-c", SETTINGS])
            path.unlink()
        elif block.kind == "json":
            try:
                json.loads(block.code)
            except ValueError as error:
                yield f"{block.place}: no JSON: {error}"
        elif block.kind != "text":
            yield f"{block.place}: a block of the unknown kind {block.kind!r}; use sh, python, toml, json or text"

    def _alone(self, block: Block) -> Iterator[str]:
        """The block as one script. Nothing outside of its folder hears its servers or sees its files."""
        if not own_network():
            print(f"{block.place}: not run: this system lets users make no network of their own")
            return
        home = Path(tempfile.mkdtemp(dir=self._folder))
        (home / ".venv").symlink_to(docs_pages.ROOT / ".venv")
        data = home / ".local" / "share" / "edgeserve"  # keys and certificates lie beside the models
        data.mkdir(parents=True)
        (data / "models").symlink_to(default_root(os.environ))
        lines = (f"{one} >server.log 2>&1 &\nup" if SERVES.search(one) else one for one in scripts(block.code))
        own = {"HOME": str(home), "EDGESERVE_MODELS_DIR": str(data / "models")}
        command = [*NETWORK, "bash", "-ec", "\n".join([START, *lines])]
        yield from self._finish(block, block.code.split("\n")[0], command, home, own)

    def _script(self, block: Block, command: str) -> Iterator[str]:
        if SERVES.search(command):
            yield from self._serve(block, command)
        elif LONG.match(command):
            yield from self._finish(block, command, ["make", "-n", *shlex.split(command)[1:]], docs_pages.ROOT)
        else:
            yield from self._finish(block, command.split("\n")[0], ["bash", "-ec", command])

    def _finish(
        self,
        block: Block,
        name: str,
        command: list[str],
        folder: Path | None = None,
        own: Mapping[str, str] | None = None,
    ) -> Iterator[str]:
        print(f"{block.place}: {name}", flush=True)
        try:
            ended = subprocess.run(  # noqa: S603 - what our own pages say
                command,
                cwd=folder or self._folder,
                env={**self._environ, **(own or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
            )
        except subprocess.TimeoutExpired:
            yield f"{block.place}: {name}: not done after {COMMAND_SECONDS:g} s"
            return
        if ended.returncode:
            yield f"{block.place}: {name}: ended with {ended.returncode}\n{ended.stdout[-500:]}{ended.stderr[-2000:]}"

    def _serve(self, block: Block, command: str) -> Iterator[str]:
        print(f"{block.place}: {command}", flush=True)
        self.stop()
        folder = docs_pages.ROOT if command.startswith("make") else self._folder
        with (self._folder / "server.log").open("wb") as log:
            self._server = subprocess.Popen(  # noqa: S603 - what our own pages say
                ["bash", "-c", f"exec {command}"],  # noqa: S607
                cwd=folder,
                env=self._environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if not self._came_up(self._server):
            yield f"{block.place}: {command}: not up\n{(self._folder / 'server.log').read_text()[-2000:]}"

    def _came_up(self, server: subprocess.Popen[bytes]) -> bool:
        until = time.monotonic() + START_SECONDS
        while server.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(HEALTH, timeout=5):
                return True
            time.sleep(LOOK_EVERY)
        return False

    def stop(self) -> None:
        """End the server, if one is up."""
        if self._server and self._server.poll() is None:
            os.killpg(self._server.pid, signal.SIGTERM)
            self._server.wait(60)


@functools.cache
def own_network() -> bool:
    """Whether this system lets everybody make a network of one's own."""
    return bool(shutil.which(NETWORK[0])) and not subprocess.run([*NETWORK, "true"], check=False).returncode  # noqa: S603


def port_taken() -> bool:
    try:
        with urllib.request.urlopen(HEALTH, timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def run_blocks() -> list[str]:
    if port_taken():
        return ["http://127.0.0.1:8080 is in use: end the server there first"]
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder))
        try:
            for page in docs_pages.in_order():
                for block in docs_pages.blocks(page):
                    failed += session.run(block)
        finally:
            session.stop()
    return failed


def main(arguments: list[str]) -> int:
    failed = [one for page in docs_pages.pages() for one in docs_pages.dead_links(page)]
    if "--links" not in arguments:
        failed += run_blocks()
        print("\n".join(docs_pages.summary()))
    for one in failed:
        print(one, file=sys.stderr)
    if failed:
        print(f"{len(failed)} faults", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
