"""A server as another user than root: a home that it cannot write, and few processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from benchmarks.chaos import fakes
from benchmarks.load import Ask
from benchmarks.process import ServerProcess, family, free_port, running
from support.server import until

NOBODY = 65534
MANY = 1000
ROOT = Path(__file__).parents[1]
LACKING = "needs Linux, root, setpriv(1) and prlimit(1), to become another user"
ABLE = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("setpriv") and shutil.which("prlimit")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ABLE, reason=LACKING),
    pytest.mark.usefixtures("another_user"),
]

AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    # The interpreter may lie in root's own folder. The right to read is all that is kept.
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search", "--"),
)


@pytest.fixture(scope="module")
def another_user() -> None:
    tried = subprocess.run([*AS_NOBODY, sys.executable, "-c", ""], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"this machine starts no interpreter as another user: {tried.stderr.strip()}")


@contextlib.contextmanager
def poor_server(folder: Path) -> Iterator[tuple[ServerProcess, Sequence[Ask]]]:
    """The fakes in processes of their own, under a user who may write nothing but its temporary folder."""
    form = fakes.prepare(folder)
    for name, mode in (("home", 0o555), ("tmp", 0o777)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    port = free_port()
    command = [*AS_NOBODY, sys.executable, "-m", "benchmarks.fuzz.serve", str(folder), str(port)]
    environ = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(ROOT)}
    with running(command, port, environ) as server:
        server.wait_healthy()
        assert psutil.Process(server.pid).uids().effective == NOBODY
        yield server, [one for some in form.asks.values() for one in some]


def ask(server: ServerProcess, one: Ask) -> httpx.Response:
    return httpx.post(server.url + one.path, json=one.json, files=one.files, timeout=60)


def health(server: ServerProcess) -> Any:
    return httpx.get(f"{server.url}/v1/health", timeout=60).json()


def limit_processes(server: ServerProcess, most: int) -> None:
    """The soft limit of the processes and threads of the user, for the server and all below it."""
    for one in family(server.pid):
        command = [*AS_NOBODY, "prlimit", f"--pid={one.pid}", f"--nproc={most}:"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 or not one.is_running(), done.stderr


def tasks() -> int:
    """Processes and threads of the user."""
    return sum(one.info["num_threads"] or 0 for one in psutil.process_iter(["uids", "num_threads"]) if _of_nobody(one))


def _of_nobody(one: psutil.Process) -> bool:
    uids = one.info["uids"]
    return uids is not None and uids.real == NOBODY


def test_another_user_without_a_home_is_served_by_confined_workers(tmp_path: Path) -> None:
    with poor_server(tmp_path) as (server, asks):
        for one in asks:
            answer = ask(server, one)
            assert answer.status_code == 200, (one, answer.text)
            one.read(answer.content)
        seen = health(server)
        assert seen["status"] == "ok"
        words = seen["hosts"]["llm"]["confined"]
        assert {layer: text.partition(",")[0] for layer, text in words.items()} == dict.fromkeys(words, "on")


def test_a_user_with_too_few_processes_gets_refusals_and_later_answers(tmp_path: Path) -> None:
    with poor_server(tmp_path) as (server, asks):
        limit_processes(server, tasks())
        answers = [ask(server, one) for one in asks]
        refused = [one for one in answers if one.status_code != 200]
        assert refused, "the limit hit nobody"
        for one in refused:
            assert one.status_code == 503, one.text
            assert one.json()["error"]["code"]
            assert float(one.headers["Retry-After"]) > 0
        assert health(server)["status"] == "ok"
        limit_processes(server, MANY)
        for one in asks:
            until(lambda one=one: ask(server, one).status_code == 200, 60.0)  # type: ignore[misc]
