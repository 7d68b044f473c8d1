"""The panel of models in a real browser: load, unload, pull, remove and advice, with the server's words on failure."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import Tab, needs_browser, opened
from support.http_files import Files, serving_files
from support.managed import World, managed, model
from support.server import Running
from support.store import GGUF

from edgeserve.engine import Rung
from edgeserve.fit import calibration
from edgeserve.fit.calibration import Calibration
from edgeserve.fit.speed import Rates
from edgeserve.models import catalog
from edgeserve.models.store import Store
from edgeserve.system import cpu

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Running, World]]:
    monkeypatch.setattr(catalog, "COMPANIONS", {})
    calibration.keep(tmp_path / calibration.FILE, Calibration(cpu.name(), cpu.kind(), Rates(10e9, 50e9)))
    with managed({"llm": model(), "asr": model("asr")}, Store(tmp_path / "models")) as (running, world):
        yield running, world


@pytest.fixture
def tab(browser: Any, world: tuple[Running, World]) -> Iterator[Tab]:
    with opened(browser, f"{world[0].url}#models") as tab:
        tab.page.get_by_role("button", name="Load: fake-asr", exact=True).wait_for()
        yield tab
        refused = "Failed to load resource"  # the browser tells every refused request
        assert [one for one in tab.errors if refused not in one] == []
        assert tab.foreign == []


@pytest.fixture
def files() -> Iterator[Files]:
    with serving_files() as files:
        files.data["/one.gguf"], files.gate = GGUF, threading.Event()
        yield files


def test_a_model_is_loaded_and_unloaded(tab: Tab, world: tuple[Running, World]) -> None:
    page, pool = tab.page, world[1].pool
    row = page.locator(".model").filter(has_text="fake-asr")
    assert row.locator(".rung").inner_text() == "cold"
    page.get_by_role("button", name="Load: fake-asr", exact=True).click()
    row.locator(".rung.hot").wait_for()
    assert pool.rung("asr") is Rung.HOT
    assert page.get_by_role("button", name="Load: fake-asr", exact=True).is_disabled()
    page.get_by_role("button", name="Unload: fake-asr", exact=True).click()
    row.locator(".rung.cold").wait_for()
    assert pool.rung("asr") is Rung.COLD
    assert page.get_by_role("alert").count() == 0


def test_the_keyboard_alone_loads_and_unloads(tab: Tab, world: tuple[Running, World]) -> None:
    row = tab.page.locator(".model").filter(has_text="fake-asr")
    for act, rung in (("Load", "hot"), ("Unload", "cold")):
        tab.page.locator(f'[aria-label="{act}: fake-asr"]:enabled').wait_for()
        for _ in range(40):
            tab.page.keyboard.press("Tab")
            if tab.page.evaluate("document.activeElement.ariaLabel") == f"{act}: fake-asr":
                break
        tab.page.keyboard.press("Enter")
        row.locator(f".rung.{rung}").wait_for()
    assert world[1].pool.rung("asr") is Rung.COLD


@pytest.mark.parametrize("width", [320, 820, 1040])
def test_the_buttons_of_a_model_stand_side_by_side(browser: Any, world: tuple[Running, World], width: int) -> None:
    with opened(browser, f"{world[0].url}#models", width=width, locale="de-DE") as tab:
        load, unload = (tab.page.get_by_role("button", name=f"{name}: fake-asr") for name in ("Laden", "Entladen"))
        load.first.wait_for()
        assert load.first.bounding_box()["y"] == unload.bounding_box()["y"]


def test_a_refusal_is_told_in_the_servers_words(tab: Tab, world: tuple[Running, World]) -> None:
    running, made = world
    gate = made.pool.gates["llm"]
    gate.acquire()
    try:
        tab.page.get_by_role("button", name="Unload: fake-llm", exact=True).click()
        words = running.client.post("/admin/unload", json={"model": "llm"}).json()["error"]["message"]
        tab.page.get_by_role("alert").get_by_text(words).wait_for()
    finally:
        gate.release()
    tab.page.get_by_role("button", name="Unload: fake-llm", exact=True).click()
    tab.page.locator(".model").filter(has_text="fake-llm").locator(".rung.cold").wait_for()
    assert tab.page.get_by_role("alert").count() == 0


def test_a_model_is_pulled_cancelled_pulled_and_removed(tab: Tab, files: Files) -> None:
    page = tab.page
    field = page.get_by_label("Name, hub:owner/repository/file or address")
    field.fill("no-such-model")
    page.get_by_role("button", name="Pull", exact=True).click()
    page.get_by_role("alert").get_by_text("no-such-model").wait_for()
    field.fill(f"{files.url}/one.gguf")
    field.press("Enter")
    page.get_by_role("progressbar").wait_for()
    assert field.input_value() == ""
    page.get_by_role("button", name="Cancel: one").click()
    page.get_by_text("cancelled").wait_for()
    assert files.gate is not None
    files.gate.set()
    field.fill(f"{files.url}/one.gguf")
    field.press("Enter")
    page.get_by_text("done", exact=True).wait_for()
    page.get_by_role("button", name="Remove: one").click()
    page.get_by_text("No model has been pulled.").wait_for()
    assert tab.dialogs == ["Delete the files of one?"]


def test_models_that_suit_the_machine_are_recommended(tab: Tab) -> None:
    page = tab.page
    page.get_by_role("button", name="Recommend").click()
    table = page.get_by_role("table")
    table.wait_for()
    assert table.locator(".badge").first.inner_text() == "best"
    assert table.get_by_role("button", name="Pull: ").first.is_enabled()
    assert "models." not in table.inner_text(), "a word is missing"
    assert tab.violations() == []


def test_a_lost_line_is_said_and_comes_back(browser: Any, world: tuple[Running, World]) -> None:
    with opened(browser, f"{world[0].url}#settings") as tab:
        tab.page.route("**/memory/feed*", lambda route: route.abort())
        tab.page.get_by_role("link", name="Models", exact=True).click()
        tab.page.get_by_role("alert").get_by_text("The connection was lost").wait_for()
        tab.page.unroute("**/memory/feed*")
        tab.page.get_by_role("button", name="Load: fake-asr", exact=True).wait_for()
        assert tab.page.get_by_role("alert").count() == 0


def test_whoever_may_not_manage_reads_why(browser: Any, world: tuple[Running, World]) -> None:
    with opened(browser, f"{world[0].url}#models") as tab:
        tab.page.route(
            "**/admin/load",
            lambda route: route.fulfill(status=403, json={"error": {"message": "only programs of this machine may"}}),
        )
        tab.page.get_by_role("button", name="Load: fake-asr", exact=True).click()
        tab.page.get_by_role("alert").get_by_text("only programs of this machine may").wait_for()
