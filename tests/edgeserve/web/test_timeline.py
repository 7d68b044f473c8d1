"""The memory timeline in a real browser: the picture, its figures, what happened, and a line that is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import Tab, needs_browser, opened
from support.managed import World, managed
from support.server import Running
from support.timeline import drawn

from edgeserve.api.web import files

pytestmark = [pytest.mark.slow, needs_browser]

WRITTEN = """() => {
  globalThis.written = [];
  const write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    written.push(text);
    return write.call(this, text, ...place);
  };
}"""
"""Keeps the texts that a canvas shows."""
HISTORY = """async () => {
  const app = document.querySelector('script[type=module]').src;
  const { History, inAll } = await import(new URL('memory_timeline.js', app));
  const history = new History();
  const sizes = ['private_mb', 'mapped_mb', 'budget_mb', 'available_mb', 'total_mb'];
  const sample = ['at', 'pressure', 'percent', ...sizes, 'models'];
  const row = (at, models) => [at, 0, 10, 50, 0, 900, 800, 1000, ...(models ? [models] : [])];
  history.feed({ type: 'start', sample, pressure: ['LOW'], rungs: ['cold', 'warm', 'hot'] });
  const last = row(102, { llm: null, asr: [1, 5, 0, 0, 1] });
  history.feed({ type: 'samples', samples: [row(100, { llm: [2, 20, 7, 0, 1] }), row(101), last] });
  const shown = () => history.samples.map((one) => [one.at, Object.keys(one.models).join(), inAll(one)]);
  const first = shown();
  history.feed({ type: 'samples', samples: [row(101.5), row(102.5, { llm: [0, 0, 0, 0, 1] })] });
  const second = shown();
  history.feed({ type: 'samples', samples: [row(2000)] });
  return [first, second, shown().map(([at]) => at), history.ids, history.at(2001).at, history.colour('asr')];
}"""


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Running, World]]:
    with managed() as (running, world):
        yield running, world


@pytest.fixture
def tab(browser: Any, world: tuple[Running, World]) -> Iterator[Tab]:
    with opened(browser, f"{world[0].url}#memory") as tab:
        tab.page.get_by_role("slider", name="Memory over time").wait_for()
        yield tab
        assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])


def test_what_happens_is_drawn_and_told(tab: Tab, world: tuple[Running, World]) -> None:
    running, made = world
    page, timeline = tab.page, made.pool.governor.timeline
    running.client.post("/admin/load", json={"model": "asr"}).raise_for_status()
    told = page.get_by_role("list", name="Last events")
    told.get_by_text(re.compile(r"fake-asr went up to hot in [\d.]+ s")).wait_for()
    drawn(tab, "series-2", 10)  # its strip
    running.client.post("/admin/unload", json={"model": "asr"}).raise_for_status()
    told.get_by_text("fake-asr stepped down to cold: by hand.").first.wait_for()
    assert page.locator(".tiles").get_by_text("of the budget").count() == 1
    assert page.locator(".legend").get_by_text("fake-llm").count() == 1
    page.get_by_label("Up to the budget").check()
    drawn(tab, "text", 100)  # the lines of budget and available memory
    timeline.note("refusal", "llm", needed_mb=900.0, why="llm needs 900 MB of memory; 100 MB are available")
    timeline.note("worker_ended", "asr", code=-9)
    told.get_by_text("Refused: llm needs 900 MB of memory; 100 MB are available").wait_for()
    told.get_by_text("A process of fake-asr ended unasked (-9).").wait_for()
    drawn(tab, "bad", 50)


def test_each_kind_of_happening_has_its_sentence(tab: Tab, world: tuple[Running, World]) -> None:
    timeline = world[1].pool.governor.timeline
    timeline.note("pressure", before="LOW", after="CRITICAL", percent=95)
    timeline.note("answer_stopped", percent=97)
    timeline.note("saving", "llm", what="prefix_cache", saved_mb=12.0)
    timeline.note("worker_ended", "llm", code=None)
    told = tab.page.get_by_role("list", name="Last events")
    for text in (
        "Pressure went from low to critical: 95% of the budget.",
        "An answer was ended: memory was critical, 97% of the budget.",
        "fake-llm does with 12 MB less: saved conversations.",
        "A process of fake-llm ended unasked (it hung).",
    ):
        told.get_by_text(text).first.wait_for()
    assert "memory." not in told.inner_text(), "a word is missing"


def test_the_keyboard_and_the_pointer_look_back(tab: Tab) -> None:
    page = tab.page
    picture = page.get_by_role("slider", name="Memory over time")
    picture.focus()
    picture.press("ArrowLeft")
    tip = page.locator(".tip")
    assert re.match(
        r"\d\d:\d\d:\d\d\n(?:.+ stepped down .+\n)?Server and models: \d+ MB\nAvailable: ", tip.inner_text()
    )
    assert "fake-llm: warm" in str(picture.get_attribute("aria-valuetext"))
    picture.press("Escape")
    tip.wait_for(state="detached")
    box = picture.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 60, box["y"] + 120)
    tip.wait_for()
    page.mouse.move(0, 0)
    tip.wait_for(state="detached")


def test_the_picture_is_a_table_too(tab: Tab) -> None:
    tab.page.get_by_text("The picture as a table").click()
    rows = tab.page.get_by_role("table").get_by_role("row")
    rows.nth(1).wait_for()
    assert rows.nth(0).inner_text().split("\t")[:5] == ["Time", "Pressure", "Server", "Budget", "Available"]
    assert re.match(r"\d\d:\d\d:\d\d\t\w+\t\d+ MB\t[\d.,]+ \wB\t", rows.nth(1).inner_text())


def test_it_speaks_german_and_shows_the_budget(browser: Any, world: tuple[Running, World]) -> None:
    with opened(browser, f"{world[0].url}#memory", locale="de-DE", scheme="dark", width=390) as tab:
        tab.page.get_by_role("slider", name="Speicher im Lauf der Zeit").wait_for()
        tab.page.evaluate(WRITTEN)
        tab.page.get_by_label("Bis zum Budget").check()
        tab.until("written.some((text) => /^-\\d+(,5)? Min\\.$/.test(text))")
        drawn(tab, "text", 100)
        assert "memory." not in tab.page.locator("main").inner_text()
        assert tab.errors == []


def test_the_history_follows_the_feed(tab: Tab) -> None:
    # The server joins the page's modules into one file; this one is tried alone.
    source = (files.FOLDER / "js" / "memory_timeline.js").read_text("utf-8")
    tab.page.route("**/memory_timeline.js", lambda route: route.fulfill(body=source, content_type="text/javascript"))
    first, second, times, ids, last, colour = tab.page.evaluate(HISTORY)
    assert first == [[100, "llm", 57], [101, "llm", 57], [102, "asr", 50]]
    assert second == [[100, "llm", 57], [101, "llm", 57], [101.5, "asr", 50], [102.5, "asr,llm", 50]], (
        "a clock set back"
    )
    assert times == [2000], "half an hour is kept"
    assert (ids, last, colour) == (["llm", "asr"], 2000, "series-2")


def test_a_lost_line_is_said_and_comes_back(browser: Any) -> None:
    with managed() as (running, _), opened(browser, f"{running.url}#memory") as tab:
        picture = tab.page.get_by_role("slider", name="Memory over time")
        picture.wait_for()
        tab.page.route("**/memory/feed", lambda route: route.abort())
        tab.page.get_by_role("link", name="Settings").click()
        tab.page.get_by_role("link", name="Memory").click()
        tab.page.get_by_role("alert").get_by_text("The connection was lost").wait_for()
        tab.page.unroute("**/memory/feed")
        picture.wait_for()
        assert tab.page.get_by_role("alert").count() == 0
