"""The panel of models in a real browser, on the command itself: a real model is pulled, loaded, asked and removed."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks import process
from benchmarks.process import ServerProcess
from support.browser import Tab, needs_browser, opened
from support.http_files import Files, serving_files

from edgeserve.models.store import Store

pytestmark = [pytest.mark.models, pytest.mark.slow, needs_browser]

STARTER = "smollm2-135m-instruct"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server without models, which serves all that it pulls."""
    folder = tmp_path_factory.mktemp("device")
    (folder / "models.toml").write_text('[server]\nserve = "stored"\n', encoding="utf-8")
    environ = {**os.environ, "EDGESERVE_MODELS_DIR": str(folder / "models")}
    with process.serving(folder / "models.toml", environ=environ) as server:
        server.wait_healthy()
        yield server


@pytest.fixture(scope="module")
def files(store: Store) -> Iterator[Files]:
    with serving_files() as files:
        files.data["/pulled.gguf"] = store.pull(STARTER).files["model"].read_bytes()
        files.gate = threading.Event()
        yield files


@pytest.fixture
def tab(browser: Any, server: ServerProcess) -> Iterator[Tab]:
    with opened(browser, f"{server.url}/#models", settings={"temperature": "0"}) as tab:
        yield tab
        assert (tab.errors, tab.foreign) == ([], [])


def test_a_model_is_pulled_loaded_asked_unloaded_and_removed(tab: Tab, files: Files) -> None:
    page = tab.page
    field = page.get_by_label("Name, hub:owner/repository/file or address")
    field.fill(f"{files.url}/pulled.gguf")
    field.press("Enter")
    page.get_by_role("progressbar", name=re.compile("^pulled: downloading")).wait_for()
    assert files.gate is not None
    files.gate.set()
    page.get_by_text("done", exact=True).wait_for()
    load, unload = (page.get_by_role("button", name=f"{act}: pulled", exact=True) for act in ("Load", "Unload"))
    load.click()
    row = page.locator(".model").filter(has=unload)
    row.locator(".rung.hot").wait_for()
    assert load.count() == 1
    assert int(re.sub(r"\D", "", row.locator(".figure").inner_text())) > 50
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Chat model").select_option("pulled")
    page.get_by_role("link", name="Chat").click()
    page.get_by_role("textbox", name="Ask something").fill("What is the capital of France?")
    page.get_by_role("button", name="Send").click()
    page.locator("article .markdown").get_by_text(re.compile(r"\w")).first.wait_for()
    page.evaluate("document.querySelector('[aria-label=\"Stop the answer\"]')?.click()")  # it may be a long one
    page.get_by_role("link", name="Models").click()
    row.get_by_text("idle for").wait_for()
    unload.click()
    row.locator(".rung.cold").wait_for()
    page.get_by_role("button", name="Remove: pulled").click()
    page.get_by_text("No model has been pulled.").wait_for()
    assert tab.dialogs == ["Delete the files of pulled?"]


def test_models_that_suit_this_machine_are_recommended(tab: Tab) -> None:
    tab.page.get_by_role("button", name="Recommend").click()
    table = tab.page.get_by_role("table")
    table.wait_for(timeout=120_000)  # the first time, the machine is measured
    assert table.get_by_text("best", exact=True).count() >= 3
    row = table.get_by_role("row").filter(has_text=re.compile(r"\d tokens/s")).first
    assert row.get_by_role("button", name="Pull: ").is_enabled()
    assert tab.violations() == []
