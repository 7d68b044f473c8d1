"""Pictures as parts of a multipart body beside its JSON."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from PIL import Image
from starlette.requests import Request
from support.pictures import IDLE, smallest_gif

from edgeserve.api.limits import HOLD, Limits
from edgeserve.api.pictures.reader import PictureFilesHere
from edgeserve.api.pictures.request import Pictures
from edgeserve.errors import TooLarge

GIF = smallest_gif()


def payload(*urls: str) -> dict[str, Any]:
    parts: list[Any] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"messages": [{"role": "user", "content": [*parts, {"type": "text", "text": "what?"}]}], "max_tokens": 50}


def post(client: httpx.Client, *parts: tuple[str, Any]) -> httpx.Response:
    return client.post("/v1/chat/completions", files=list(parts))


def as_json(value: Any) -> tuple[None, str]:
    """A field without a file's name."""
    return (None, json.dumps(value))


@pytest.mark.parametrize("name", [None, "chat.json"])
def test_parts_are_taken_by_name(client: httpx.Client, name: str | None) -> None:
    body = json.dumps(payload("attachment:one", "attachment:two", "attachment:one"))
    parts = [("payload", (name, body)), ("one", ("1.gif", GIF)), ("two", ("2.gif", GIF + b"abc"))]
    answer = post(client, *parts)
    assert answer.status_code == 200, answer.text
    assert (
        f"3 images of {len(GIF)} {len(GIF) + 3} {len(GIF)} bytes: what?"
        in answer.json()["choices"][0]["message"]["content"]
    )


def test_a_long_conversation_is_no_file(client: httpx.Client) -> None:
    """Text fields of forms are held to a megabyte where they are not a body of their own."""
    long = payload("attachment:one") | {"user": "x" * (2 << 20)}
    assert post(client, ("payload", as_json(long)), ("one", ("1.gif", GIF))).status_code == 200


@pytest.mark.parametrize(
    ("parts", "status", "param", "why"),
    [
        ([("one", ("1.gif", GIF))], 400, "payload", "payload is required: the part that holds"),
        ([("payload", (None, "{"))], 400, None, "the body is not valid JSON"),
        ([("payload", as_json([]))], 400, None, "must be a JSON object"),
        (
            [("payload", as_json(payload("attachment:two"))), ("one", ("1.gif", GIF))],
            400,
            "messages[0].content[0].image_url",
            "no file part named 'two'; there are: one",
        ),
        ([("payload", as_json(payload("attachment:two")))], 400, "messages[0].content[0].image_url", "there are none"),
        (
            [("payload", as_json(payload("attachment:one")))] + [("one", ("1.gif", GIF))] * 2,
            400,
            "one",
            "the part 'one' is there twice",
        ),
        ([("payload", as_json(payload())), ("model", (None, "llm"))], 400, "model", "is no file; other fields belong"),
        ([("payload", as_json(payload())), ("one", ("1.gif", GIF))], 400, "one", "write its url as attachment:one"),
        (
            [("payload", as_json(payload("attachment:one"))), ("one", ("1.gif", b"words"))],
            415,
            "messages[0].content[0].image_url",
            "neither PNG, JPEG, GIF, BMP, WebP, HEIC nor AVIF",
        ),
    ],
)
def test_a_wrong_picture_is_named(client: httpx.Client, parts: Any, status: int, param: str | None, why: str) -> None:
    answer = post(client, *parts)
    assert answer.status_code == status
    assert answer.json()["error"]["param"] == param
    assert why in answer.json()["error"]["message"]


def test_more_pictures_than_the_limit(client: httpx.Client) -> None:
    body = as_json(payload(*["attachment:one"] * 9))
    answer = post(client, ("payload", body), ("one", ("1.gif", GIF)))
    assert answer.status_code == 400
    assert "hold 9 images; the limit is 8" in answer.json()["error"]["message"]
    files = [(f"p{number}", ("1.gif", GIF)) for number in range(10)]
    many = post(client, ("payload", as_json(payload("attachment:p0"))), *files)
    assert many.status_code == 400
    assert "Too many files" in many.json()["error"]["message"]


def test_pictures_that_are_too_large_together() -> None:
    """Each is within the limit of four pixels."""
    out = BytesIO()
    Image.new("RGB", (2, 2)).save(out, "PNG")
    state = SimpleNamespace(limits=Limits(max_image_pixels=4), picture_files=PictureFilesHere(), pool=IDLE)

    async def receive() -> Any:
        await asyncio.Event().wait()

    request = Request({"type": "http", "app": SimpleNamespace(state=state), HOLD: lambda size: None}, receive)
    pictures = Pictures(request, {"one": out.getvalue()})

    async def read(times: int) -> None:
        for number in range(times):
            part = await pictures.read("attachment:one", f"part {number}")
            assert part.pixels == 4

    asyncio.run(read(3))
    with pytest.raises(TooLarge, match="more than 0 million pixels together") as refused:
        asyncio.run(read(1))
    assert refused.value.param == "part 0"


def test_a_part_needs_a_form(client: httpx.Client) -> None:
    answer = client.post("/v1/chat/completions", json=payload("attachment:one"))
    assert answer.status_code == 400
    assert "the body has no file part named 'one'" in answer.json()["error"]["message"]
