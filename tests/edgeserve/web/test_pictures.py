"""Pictures of a question in a real browser: scaled, by file, paste, drop and camera, and those it cannot decode."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.browser import Tab, answer, ask, needs_browser, opened
from support.heic import PHOTO
from support.server import Running

pytestmark = [pytest.mark.slow, needs_browser]


def pixels(url: str, folder: Path) -> tuple[int, int]:
    assert url.startswith("data:image/jpeg;base64,")
    path = folder / "sent.jpg"
    path.write_bytes(base64.b64decode(url.partition(",")[2]))
    with Image.open(path) as image:
        return image.size


def test_a_picture_is_scaled_sent_and_shown(tab: Tab, tmp_path: Path) -> None:
    Image.new("RGB", (3000, 1500), "teal").save(tmp_path / "large.png")
    tab.page.locator("input[type=file]").first.set_input_files(tmp_path / "large.png")
    tab.page.get_by_role("button", name="Remove picture 1").wait_for()
    with tab.page.expect_request("**/v1/chat/completions") as asked:
        ask(tab, "what is this?")
    parts = json.loads(asked.value.post_data)["messages"][-1]["content"]
    assert pixels(parts[0]["image_url"]["url"], tmp_path) == (1024, 512)
    assert parts[1] == {"type": "text", "text": "what is this?"}
    assert "bytes" in answer(tab).inner_text() or "picture" in answer(tab).inner_text()
    assert tab.page.get_by_role("img", name="Picture 1").is_visible()


PASTE = """(name) => {
  const canvas = new OffscreenCanvas(40, 20);
  canvas.getContext("2d").fillRect(0, 0, 40, 20);
  return canvas.convertToBlob().then((blob) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([blob], "a.png", { type: "image/png" }));
    const place = document.querySelector(".composer textarea");
    const event = name === "paste"
      ? new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true })
      : new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
    place.dispatchEvent(event);
  });
}"""


@pytest.mark.parametrize("way", ["paste", "drop"])
def test_a_picture_comes_by_paste_and_drop(tab: Tab, way: str) -> None:
    tab.page.evaluate(PASTE, way)
    thumb = tab.page.get_by_role("button", name="Remove picture 1")
    thumb.wait_for()
    thumb.click()
    assert tab.page.locator(".thumb").count() == 0


def test_the_camera_takes_a_picture(tab: Tab) -> None:
    tab.page.get_by_role("button", name="Camera").click()
    tab.until("document.querySelector('.camera video')?.videoWidth > 0")
    tab.page.get_by_role("button", name="Take the picture").click()
    tab.page.get_by_role("button", name="Remove picture 1").wait_for()
    assert tab.page.locator("dialog").count() == 0


def attach(tab: Tab, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    tab.page.locator("input[type=file]").first.set_input_files(path)
    tab.page.get_by_role("button", name="Remove picture 1").wait_for()


def test_a_photo_that_the_browser_cannot_decode_is_sent_as_it_is(tab: Tab, tmp_path: Path) -> None:
    attach(tab, tmp_path / "IMG_0001.HEIC", PHOTO)
    with tab.page.expect_request("**/v1/chat/completions") as asked:
        ask(tab, "what is this?")
    parts = json.loads(asked.value.post_data)["messages"][-1]["content"]
    assert base64.b64decode(parts[0]["image_url"]["url"].partition(",")[2]) == PHOTO
    last = answer(tab)
    assert last.get_by_role("alert").count() == 0
    assert last.locator(".markdown").inner_text()
    assert tab.page.get_by_role("img", name="Picture 1").is_visible()
    assert tab.violations() == []


def test_the_server_says_what_is_wrong_with_a_file_that_nobody_reads(tab: Tab, tmp_path: Path) -> None:
    attach(tab, tmp_path / "odd.png", b"no picture")
    ask(tab, "what is this?")
    text = answer(tab).get_by_role("alert").inner_text()
    assert "is neither PNG, JPEG, GIF, BMP, WebP, HEIC nor AVIF" in text
    ask(tab, "only words")  # without the file that failed before
    assert answer(tab).locator(".markdown").inner_text() == "only words"
    refused = "Failed to load resource: the server responded with a status of 415"
    assert [one for one in tab.errors if not one.startswith(refused)] == []
    tab.errors.clear()


def test_a_large_file_that_the_browser_cannot_decode_is_refused_with_both_sizes(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "large.heic").write_bytes(PHOTO + bytes(8 << 20))
    tab.page.locator("input[type=file]").first.set_input_files(tmp_path / "large.heic")
    told = tab.page.get_by_role("alert")
    told.get_by_text("cannot scale large.heic down").get_by_text("9 MB, of 8 MB at most").wait_for()
    assert tab.page.locator(".thumb").count() == 0


DROP = """(name) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File(["%PDF"], name, { type: name.endsWith("pdf") ? "application/pdf" : "" }));
  const event = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
  return !document.querySelector(".composer textarea").dispatchEvent(event);
}"""


@pytest.mark.parametrize(
    ("locale", "words"), [("en-GB", "paper.pdf is not a picture."), ("de-DE", "paper.pdf ist kein Bild.")]
)
def test_a_dropped_file_that_is_no_picture_is_named(browser: Any, running: Running, locale: str, words: str) -> None:
    with opened(browser, running.url, locale=locale) as tab:
        assert tab.page.evaluate(DROP, "paper.pdf"), "the browser may open the file in place of the page"
        tab.page.get_by_role("alert").get_by_text(words).wait_for()


def test_a_dropped_photo_of_no_type_is_known_by_its_name(tab: Tab) -> None:
    tab.page.evaluate(DROP, "IMG_0002.heic")
    tab.page.get_by_role("button", name="Remove picture 1").wait_for()


def test_a_picture_that_comes_before_the_list_of_models_is_kept(browser: Any, running: Running) -> None:
    context = browser.new_context()
    waiting: list[Any] = []
    try:
        page = context.new_page()
        page.route("**/v1/models", lambda route: waiting.append(route))
        page.goto(running.url)
        page.wait_for_selector(".composer textarea")
        page.evaluate(PASTE, "paste")
        page.get_by_role("button", name="Remove picture 1").wait_for()
        assert page.get_by_role("alert").count() == 0
    finally:
        for route in waiting:
            route.abort()
        context.close()


def test_a_picture_that_comes_while_the_server_does_not_answer_is_kept(browser: Any, running: Running) -> None:
    """The page said that no model here sees pictures, and knew none."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.route("**/v1/models", lambda route: route.abort())
        page.goto(running.url)
        page.get_by_text("The server does not answer. This page keeps trying.").wait_for()
        page.evaluate(PASTE, "paste")
        page.get_by_role("button", name="Remove picture 1").wait_for()
        assert page.locator(".composer [role=alert]").count() == 0
    finally:
        context.close()
