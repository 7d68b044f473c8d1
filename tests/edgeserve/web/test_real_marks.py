"""Marks of the timeline for what really happens: a load that the budget refuses, and a worker that is killed."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from benchmarks import process
from benchmarks.process import ServerProcess
from support.browser import needs_browser, opened
from support.server import until
from support.timeline import drawn

from edgeserve.models.store import Store

pytestmark = [pytest.mark.models, pytest.mark.slow, needs_browser]

STARTER = "smollm2-135m-instruct"
TOO_SMALL_MB = "160"
"""Memory of a simulated machine on which the server runs, and the model does not."""


@pytest.fixture
def server(store: Store, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    store.pull(STARTER)
    text = f'[server]\nisolation = "process"\n\n[llm]\nmodel = "{STARTER}"\n'
    (tmp_path / "models.toml").write_text(text, encoding="utf-8")
    environ = {**os.environ, "EDGESERVE_MODELS_DIR": str(store.root), **getattr(request, "param", {})}
    with process.serving(tmp_path / "models.toml", environ=environ) as server:
        server.wait_healthy()
        yield server


def load(server: ServerProcess) -> httpx.Response:
    return httpx.post(f"{server.url}/admin/load", json={"model": "llm"}, timeout=60)


@pytest.mark.parametrize("server", [{"EDGESERVE_OVERRIDE_MEMORY_MB": TOO_SMALL_MB}], indirect=True)
def test_a_load_that_the_budget_refuses_is_marked_with_its_words(browser: Any, server: ServerProcess) -> None:
    with opened(browser, f"{server.url}/#models") as tab:
        page = tab.page
        page.get_by_role("button", name=f"Load: {STARTER}", exact=True).first.click()
        told = page.get_by_role("alert").get_by_text(f"{STARTER} needs ")
        told.wait_for()
        words = told.inner_text()
        assert re.search(r"needs \d+ MB of memory; \d+ MB of the budget of \d+ MB", words)
        page.get_by_role("link", name="Memory").click()
        page.get_by_role("list", name="Last events").get_by_text(f"Refused: {words}").first.wait_for()
        drawn(tab, "bad", 50)
        assert [one for one in tab.errors if "status of 507" not in one] == []
        assert tab.foreign == []


def test_a_worker_that_is_killed_is_marked_and_another_takes_its_place(browser: Any, server: ServerProcess) -> None:
    with opened(browser, f"{server.url}/#memory") as tab:
        told = tab.page.get_by_role("list", name="Last events")
        load(server).raise_for_status()
        told.get_by_text(f"{STARTER} went up to hot").wait_for()
        (worker,) = psutil.Process(server.pid).children()
        worker.send_signal(signal.SIGKILL)
        told.get_by_text(f"A process of {STARTER} ended unasked (-9).").wait_for()
        drawn(tab, "bad", 50)
        load(server).raise_for_status()
        until(lambda: told.get_by_text(f"{STARTER} went up to hot").count() == 2, seconds=60)
        (other,) = psutil.Process(server.pid).children()
        assert other.pid != worker.pid
        assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])
