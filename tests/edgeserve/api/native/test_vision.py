"""The native vision routes on fake engines, and pictures in a native chat."""

from __future__ import annotations

import base64
import struct

import httpx
import pytest
from benchmarks.mmproj import picture
from support.answers import error
from support.server import fake_pool, serving


@pytest.mark.parametrize("path", ["/v1/vision/analyze", "/v1/vision/ocr"])
def test_vision_takes_an_image_and_a_prompt(client: httpx.Client, path: str) -> None:
    image = picture("red")
    answer = client.post(path, files={"image": ("a.png", image)}, data={"prompt": "what?"})
    assert answer.json() == {"text": f"1 images of {len(image)} bytes: what?"}
    assert client.post(path, files={"image": image}).status_code == 200


def test_an_image_of_a_hundred_million_pixels_is_refused_unread(client: httpx.Client) -> None:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII5B", 13, b"IHDR", 10_000, 10_000, 8, 2, 0, 0, 0)
    failure = error(client.post("/v1/vision/analyze", files={"image": head}), 413)
    assert "10000×10000, 100 million pixels; the limit is 20 million" in failure["message"]


def test_words_sent_as_an_image(client: httpx.Client) -> None:
    assert error(client.post("/v1/vision/analyze", files={"image": b"words"}), 415)["param"] == "image"


def test_a_conversation_with_an_image_goes_to_the_vision_engine(client: httpx.Client) -> None:
    png = picture("red")
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what?"}]
    body = {"messages": [{"role": "user", "content": parts}]}
    assert client.post("/v1/chat", json=body).json() == {"text": f"1 images of {len(png)} bytes: what?"}
    with serving(fake_pool(["llm"])) as running:
        assert error(running.client.post("/v1/chat", json=body), 404)["code"] == "engine_not_configured"


def test_a_vision_engine_alone_serves_text_too() -> None:
    with serving(fake_pool(["vision"])) as running:
        assert running.client.post("/v1/chat", json={"prompt": "hi"}).json() == {"text": "hi"}


def test_a_wrong_image_is_named_with_its_place(client: httpx.Client) -> None:
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}]
    answer = client.post("/v1/chat", json={"messages": [{"role": "user", "content": parts}]})
    assert error(answer, 400)["param"] == "messages[0].content[1].image_url"
