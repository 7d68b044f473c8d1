"""Every function of the chat in a real browser, answered by real models."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.mmproj import build_mmproj, picture
from support.browser import Tab, answer, ask, chromium, needs_browser, opened
from support.server import Running, serving, until

from edgeserve import assembly, config
from edgeserve.engine import Rung
from edgeserve.models.store import Store

pytestmark = [pytest.mark.models, pytest.mark.slow, needs_browser]

SETTINGS = {"temperature": "0"}
FRANCE = "What is the capital of France?"
STORY = "Tell me a very long story about a lighthouse."
TAG, ASSISTANT, SPARE = b"<think>\n", b"<|im_start|>assistant\n", b" named SmolLM, trained by Hugging Face"
"""A tag that opens thoughts, the end of the model's template, and words before it that can spare as many bytes."""
PICTURE = """([name, bytes]) => {
  const data = Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([data], "a.png", { type: "image/png" }));
  const event = name === "paste"
    ? new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true })
    : new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
  document.querySelector(".composer textarea").dispatchEvent(event);
}"""


def thinking(model: Path, out: Path) -> Path:
    """The model with a template that begins its answers with a thought, in as many bytes."""
    data = model.read_bytes()
    changed = data.replace(SPARE, SPARE[: -len(TAG)], 1).replace(ASSISTANT, ASSISTANT + TAG, 1)
    assert len(changed) == len(data), "another template"
    out.write_bytes(changed)
    return out


@pytest.fixture(scope="module")
def running(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("device")
    names = {job: store.pull(one.model).name for job, one in config.load(os.environ).models.items()}
    model = store.find(names["llm"]).files["model"]
    text = "".join(f'[{job}]\nmodel = "{name}"\n' for job, name in names.items())
    text += f'[vision]\nmodel = "{names["llm"]}"\nmmproj = "{build_mmproj(model, folder / "mmproj.gguf")}"\n'
    text += f'[models.thinker]\njob = "llm"\nmodel = "{thinking(model, folder / "thinker.gguf")}"\n'
    (folder / "models.toml").write_text(text, encoding="utf-8")
    with serving(assembly.build_pool(config.load({}, path=folder / "models.toml"), store)) as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser whose camera sees nothing but blue."""
    path, side = tmp_path_factory.mktemp("camera") / "blue.y4m", 64
    planes = bytes([41]) * side**2 + bytes([240]) * (side // 2) ** 2 + bytes([110]) * (side // 2) ** 2  # BT.601
    path.write_bytes(f"YUV4MPEG2 W{side} H{side} F30:1 Ip A1:1 C420\n".encode() + b"FRAME\n" + planes)
    with chromium(camera=path) as browser:
        yield browser


@pytest.fixture
def tab(browser: Any, running: Running) -> Iterator[Tab]:
    with opened(browser, running.url, settings=SETTINGS) as tab:
        yield tab
        assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])


def test_an_answer_has_markdown_and_figures_and_is_copied(tab: Tab) -> None:
    ask(tab, "Name three birds, as a Markdown list.")
    last = answer(tab)
    assert last.locator(".markdown li").count() >= 3
    assert re.search(r"[\d.,]+ tokens/s · \d+ tokens · first after [\d.]+ s", last.inner_text())
    last.get_by_role("button", name="Copy").click()
    last.get_by_role("button", name="Copied").wait_for()
    copied = tab.page.evaluate("navigator.clipboard.readText()")
    assert last.locator(".markdown li").first.inner_text() in copied


def test_an_answer_is_stopped_and_the_model_rests(tab: Tab, running: Running) -> None:
    ask(tab, STORY)
    tab.page.locator(".markdown").get_by_text(re.compile(r"\w+ \w+")).first.wait_for()
    tab.page.get_by_role("button", name="Stop the answer").click()
    last = answer(tab)
    assert "Stopped." in last.inner_text()
    until(lambda: running.pool.gates["llm"].leases == 0)
    ask(tab, FRANCE)
    assert "Paris" in answer(tab, 1).inner_text()


def test_a_question_is_edited_and_answered_anew(tab: Tab) -> None:
    ask(tab, "Say hello.")
    answer(tab)
    question = tab.page.get_by_role("article", name="You")
    question.hover()
    question.get_by_role("button", name="Edit the question").click()
    tab.page.get_by_role("textbox", name="Edit the question").fill(FRANCE)
    tab.page.get_by_role("button", name="Ask again").click()
    tab.page.get_by_role("article", name="Answer").get_by_text("Paris").first.wait_for()
    first = answer(tab).locator(".markdown").inner_text()
    with tab.page.expect_response("**/v1/chat/completions"):
        answer(tab).get_by_role("button", name="Answer anew").click()
    assert answer(tab).locator(".markdown").inner_text() == first, "the same at temperature 0"
    assert tab.page.get_by_role("article").count() == 2


def test_thoughts_are_folded(browser: Any, running: Running) -> None:
    with opened(browser, running.url, settings={**SETTINGS, "model": "thinker"}) as tab:
        ask(tab, FRANCE)
        last = answer(tab)
        thoughts = last.locator(".thoughts")
        assert not thoughts.is_visible()
        last.locator("summary").click()
        assert "Paris" in thoughts.inner_text()


@pytest.mark.parametrize("way", ["paste", "drop", "file"])
def test_a_picture_is_seen(tab: Tab, way: str, tmp_path: Path) -> None:
    data = picture("red", 640)
    if way == "file":
        (tmp_path / "red.png").write_bytes(data)
        tab.page.locator("input[type=file]").first.set_input_files(tmp_path / "red.png")
    else:
        tab.page.evaluate(PICTURE, [way, base64.b64encode(data).decode()])
    tab.page.get_by_role("button", name="Remove picture 1").wait_for()
    ask(tab, "Describe this image.")
    assert "red" in answer(tab).locator(".markdown").inner_text()


def test_the_cameras_picture_is_seen(tab: Tab) -> None:
    tab.page.get_by_role("button", name="Camera").click()
    tab.until("document.querySelector('.camera video')?.videoWidth > 0")
    tab.page.get_by_role("button", name="Take the picture").click()
    tab.page.get_by_role("button", name="Remove picture 1").wait_for()
    ask(tab, "Describe this image.")
    assert "blue" in answer(tab).locator(".markdown").inner_text()


def test_settings_choose_the_model_its_manner_and_how_long_it_stays(tab: Tab, running: Running) -> None:
    tab.page.get_by_role("link", name="Settings").click()
    tab.page.get_by_role("textbox", name=re.compile("^System message New")).fill("You speak like a pirate.")
    tab.page.get_by_label("Keep in memory").fill("0")
    tab.page.get_by_label("Keep in memory").blur()
    tab.page.get_by_role("link", name="Chat").click()
    with tab.page.expect_request("**/v1/chat/completions") as asked:
        ask(tab, FRANCE)
    assert "pirate" in asked.value.post_data
    answer(tab)
    until(lambda: running.pool.rung("llm") is not Rung.HOT, seconds=20)
