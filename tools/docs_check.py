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
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgeserve.models.folder import default_root

ROOT = Path(__file__).parent.parent
FIRST = (ROOT / "README.md", ROOT / "docs/quickstart.md")
"""Pages whose blocks start the server that the blocks of all others ask."""
HEALTH = "http://127.0.0.1:8080/v1/health"

START_SECONDS = 900.0
"""Longest start of a server: ``make serve`` may have to build llama.cpp."""
COMMAND_SECONDS = 600.0
LOOK_EVERY = 0.2
"""Seconds between two looks whether the server is up."""

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")
FENCE = re.compile(r"^```(\w*)\s*$")
EXCUSE = re.compile(r"<!-- not run: (.+) -->")
ALONE = "<!-- alone -->"
NETWORK = ("unshare", "--user", "--map-root-user", "--net")
"""A network with nothing but a loopback device. Some systems let only root make one."""
START = """ip link set lo up
trap 'kill $(jobs -p) 2>/dev/null && wait || :' EXIT
up() { until grep -q ' serves on ' server.log; do kill -0 $! || { cat server.log; exit 1; }; sleep 0.2; done; }"""
SERVES = re.compile(r"(^|\s)(make serve|edgeserve serve)\b")
LONG = re.compile(r"^make (test|bench|check|coverage)\b")
"""Targets with a run of their own: make only says what they would do."""


SETTINGS = "import os, pathlib; from edgeserve import config; config.load(os.environ, path=pathlib.Path('models.toml'))"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: ``line`` is where its code begins; ``excuse`` says why it does not run, or is empty.

    ``alone``: it has a home and a network of its own.
    """

    page: Path
    line: int
    kind: str
    code: str
    excuse: str
    alone: bool = False

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    tops = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    return [*(page for page in tops if page.exists()), *sorted((ROOT / "docs").rglob("*.md"))]


def in_order() -> list[Path]:
    """All pages, in the order in which their blocks run."""
    return [*FIRST, *(page for page in pages() if page not in FIRST)]


def prose(text: str) -> str:
    """The page without its code, with all lines kept."""
    fenced, kept = False, []
    for line in text.split("\n"):
        mark = line.startswith("```")
        kept.append("" if mark or fenced else re.sub(r"`[^`]*`", "code", line))
        fenced ^= mark
    return "\n".join(kept)


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> Iterator[str]:
    """Links of a page to files or headings that are not there; addresses of other sites are not asked."""
    for number, line in enumerate(prose(page.read_text(encoding="utf-8")).split("\n"), 1):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path) if path else page
            if not file.exists():
                yield f"{page.relative_to(ROOT)}:{number}: {target} leads to no file"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                yield f"{page.relative_to(ROOT)}:{number}: {target} leads to no heading"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    kind: str | None = None
    kept: list[str] = []
    start, excuse, alone = 0, "", False
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        fence = FENCE.match(line)
        if fence and kind is None:
            kind, start, kept = fence[1], number + 1, []
        elif fence and kind is not None:
            yield Block(page, start, kind, "\n".join(kept), excuse, alone)
            kind, excuse = None, ""
        elif kind is not None:
            kept.append(line)
        elif line.strip():
            found = EXCUSE.match(line.strip())
            excuse = found[1] if found else ""
            alone = line.strip() == ALONE


def scripts(code: str) -> Iterator[str]:
    """Each command that serves or has a run of its own, and the lines between them, which one shell runs."""
    kept: list[str] = []
    for line in code.split("\n"):
        command = line.split(" #")[0].strip()
        if not (SERVES.search(command) or LONG.match(command)):
            kept += [line] if line.strip() else []
            continue
        if kept:
            yield "\n".join(kept)
        kept = []
        yield command
    if kept:
        yield "\n".join(kept)


class Session:
    """Runs blocks one after the other; keeps at most one server up between them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
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
        (home / ".venv").symlink_to(ROOT / ".venv")
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
            yield from self._finish(block, command, ["make", "-n", *shlex.split(command)[1:]], ROOT)
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
        folder = ROOT if command.startswith("make") else self._folder
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
            for page in in_order():
                for block in blocks(page):
                    failed += session.run(block)
        finally:
            session.stop()
    return failed


def summary() -> Iterator[str]:
    """The number of blocks that run, and the reasons of the others."""
    found = [block for page in pages() for block in blocks(page)]
    reasons = Counter(block.excuse for block in found if block.excuse)
    yield f"{len(found) - reasons.total()} blocks run, {reasons.total()} do not:"
    yield from (f"  {times} {reason}" for reason, times in reasons.most_common())


def main(arguments: list[str]) -> int:
    failed = [one for page in pages() for one in dead_links(page)]
    if "--links" not in arguments:
        failed += run_blocks()
        print("\n".join(summary()))
    for one in failed:
        print(one, file=sys.stderr)
    if failed:
        print(f"{len(failed)} faults", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
