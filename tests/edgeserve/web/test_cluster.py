"""The boxes of a cluster in a real browser: memory, models, silent ones, and nothing where there is one box."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.process import free_port
from support.browser import Tab, needs_browser, opened
from support.server import Running, fake_pool, serving, until

pytestmark = [pytest.mark.slow, needs_browser]

KEY = "secret-key"
GB = 1 << 30
HOSTILE = "<img src=x onerror=alert(1)>"


def node(name: str, **more: Any) -> dict[str, Any]:
    model = {"id": "llm", "name": "small", "job": "llm", "rung": "hot", "expected": GB, "held": GB, "requests": 2}
    found = {"name": name, "budget": 4 * GB, "used": GB, "room": 3 * GB, "pressure": "LOW", "requests": 2}
    return {**found, "models": [model, {**model, "id": "asr", "name": "ears", "rung": "cold"}], **more}


def shown(tab: Tab, *bodies: dict[str, Any]) -> list[str]:
    """Open the memory panel; the looks find ``bodies``, and the last of them from then on. Returns the looks."""
    looks: list[str] = []

    def answer(route: Any) -> None:
        looks.append(route.request.url)
        route.fulfill(json=bodies[min(len(looks), len(bodies)) - 1])

    tab.page.route("**/cluster/status", answer)
    tab.page.get_by_role("link", name="Memory").click()
    return looks


@pytest.mark.usefixtures("patient")
def test_the_peers_of_a_server_are_shown(browser: Any) -> None:
    gone = f"127.0.0.1:{free_port()}"
    with serving(fake_pool(["asr"]), api_key=KEY) as other:
        there = other.url.removeprefix("http://").rstrip("/")
        with (
            serving(fake_pool(["llm"]), api_key=KEY, peers=(there, gone)) as running,
            opened(browser, f"{running.url.rstrip('/')}/#key={KEY}") as tab,
        ):
            tab.page.get_by_role("link", name="Memory").click()
            boxes = tab.page.get_by_role("list", name="Boxes of the cluster")
            boxes.get_by_text(there).wait_for()
            boxes.get_by_text(gone, exact=True).wait_for()
            assert boxes.get_by_text("does not answer", exact=True).count() == 1
            tab.page.get_by_text("Pressure of all boxes: low").wait_for()
            assert tab.violations() == []
            assert (tab.errors, tab.foreign) == ([], [])


def test_memory_models_and_silence_of_each_box(tab: Tab) -> None:
    first = {"pressure": "LOW", "nodes": [node("a:8080"), node("b:8080")], "silent": {}}
    bare = node("a:8080", used=0, models=[], requests=0)
    lost = {"pressure": "CRITICAL", "nodes": [bare, node("b:8080", pressure="CRITICAL")], "silent": {"b:8080": "gone"}}
    shown(tab, first, lost)
    boxes = tab.page.get_by_role("list", name="Boxes of the cluster").get_by_role("listitem")
    boxes.first.get_by_text("1 GB of 4 GB").wait_for()
    assert boxes.first.get_by_role("progressbar", name="a:8080: 1 GB of 4 GB").get_attribute("value") == str(GB)
    assert "small: hot" in boxes.first.inner_text()
    assert "ears" not in boxes.first.inner_text()
    assert tab.page.get_by_text("does not answer").count() == 0
    tab.page.get_by_text("Pressure of all boxes: critical").wait_for()
    assert boxes.count() == 2
    assert "No model is in memory." in boxes.nth(0).inner_text()
    assert "does not answer" not in boxes.nth(0).inner_text()
    assert all(one in boxes.nth(1).inner_text() for one in ("does not answer", "gone", "critical", "small: hot"))


def test_names_of_other_boxes_are_text(tab: Tab) -> None:
    names = {"name": HOSTILE, "id": "x", "job": "llm", "rung": "hot", "requests": 0}
    body = {"pressure": HOSTILE, "nodes": [node(HOSTILE, models=[names])], "silent": {f"other {HOSTILE}": HOSTILE}}
    shown(tab, body)
    boxes = tab.page.get_by_role("list", name="Boxes of the cluster")
    boxes.get_by_text(HOSTILE).first.wait_for()
    assert boxes.locator("img").count() == 0


def test_one_box_alone_shows_nothing_and_asks_once(tab: Tab) -> None:
    tab.page.clock.install()
    looks = shown(tab, {"pressure": "LOW", "nodes": [], "silent": {}})
    tab.page.get_by_role("slider", name="Memory over time").wait_for()
    until(lambda: len(looks) > 0)
    for _ in range(20):
        tab.page.clock.run_for(1000)
    assert len(looks) == 1
    assert tab.page.get_by_text("Boxes of the cluster").count() == 0


def test_a_refusal_is_told_in_the_servers_words(browser: Any, running: Running) -> None:
    with opened(browser, running.url) as tab:
        words = {"error": {"message": "this key reads no cluster"}}
        tab.page.route("**/cluster/status", lambda route: route.fulfill(status=403, json=words))
        tab.page.get_by_role("link", name="Memory").click()
        tab.page.get_by_role("alert").get_by_text("this key reads no cluster").wait_for()


def test_a_lost_server_is_asked_again(browser: Any, running: Running) -> None:
    with opened(browser, running.url) as tab:
        tab.page.route("**/cluster/status", lambda route: route.abort())
        tab.page.get_by_role("link", name="Memory").click()
        tab.page.get_by_role("slider", name="Memory over time").wait_for()
        tab.page.unroute("**/cluster/status")
        shown(tab, {"pressure": "LOW", "nodes": [node("a:8080")], "silent": {}})
        tab.page.get_by_text("a:8080", exact=True).wait_for()
