"""Pictures in conversations, on a fake engine that says how many it sees."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image
from support.server import Running, fake_pool, serving
from websockets.sync.client import ClientConnection, connect

from edgeserve.api.realtime.conversation import Conversation
from edgeserve.jobs import Job


def png() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(out, "PNG")
    return out.getvalue()


PNG = png()
JOBS: list[Job] = ["llm", "vision", "asr", "tts"]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(JOBS), live_sessions=4) as one:
        yield one


class Talk:
    """A session that answers in text."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.until("session.created")
        self.send("session.update", session={"output_modalities": ["text"]})
        self.until("session.updated")

    def send(self, kind: str, **fields: Any) -> None:
        self._socket.send(json.dumps({"type": kind, **fields}))

    def until(self, *kinds: str) -> list[Any]:
        """Events up to the first of these types."""
        events = [json.loads(self._socket.recv(timeout=20))]
        while events[-1]["type"] not in kinds:
            events.append(json.loads(self._socket.recv(timeout=20)))
        return events

    def show(self, *parts: Any, role: str = "user") -> Any:
        """The event that answers a message."""
        self.send("conversation.item.create", item={"type": "message", "role": role, "content": list(parts)})
        return self.until("conversation.item.done", "error")[-1]

    def answer(self, **response: Any) -> str:
        """The words of an answer."""
        self.send("response.create", response=response)
        done = self.until("response.done")[-1]["response"]
        assert done["status"] == "completed", done
        return str(done["output"][0]["content"][0]["text"])


@pytest.fixture
def talk(running: Running) -> Iterator[Talk]:
    with connect(f"{running.url.replace('http', 'ws', 1)}/v1/realtime") as socket:
        yield Talk(socket)


def picture(data: bytes = b"") -> Any:
    url = f"data:image/png;base64,{base64.b64encode(data or PNG).decode()}"
    return {"type": "input_image", "image_url": url}


def said(text: str) -> Any:
    return {"type": "input_text", "text": text}


def test_the_model_for_pictures_answers(talk: Talk) -> None:
    done = talk.show(said("what is this"), picture())
    assert done["item"]["content"] == [said("what is this"), {"type": "input_image", "detail": "auto"}]
    assert talk.answer() == f"1 images of {len(PNG)} bytes: what is this"
    talk.send("conversation.item.delete", item_id=done["item"]["id"])
    talk.until("conversation.item.deleted")
    talk.show(said("and now"))
    assert talk.answer() == "and now"


def test_items_of_one_answer_alone(talk: Talk) -> None:
    item = {"type": "message", "role": "user", "content": [picture(), picture(), said("both")]}
    assert talk.answer(conversation="none", input=[item]).startswith("2 images of ")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (picture(b"no picture at all"), "image_url is neither PNG, JPEG"),
        (picture(PNG[:40]), "image_url is damaged"),
        ({"type": "input_image", "image_url": "http://127.0.0.1/a.png"}, "conversations fetch no pictures"),
        ({"type": "input_image", "image_url": "data:image/png;base64,???"}, "image_url is not base64"),
        ({"type": "input_image"}, "image_url"),
    ],
)
def test_a_picture_that_cannot_be_read_is_refused(talk: Talk, part: Any, words: str) -> None:
    refused = talk.show(said("look"), part)
    assert refused["type"] == "error"
    assert words in refused["error"]["message"]
    assert refused["error"]["param"].startswith("item.content[1]")
    talk.show(said("and now"))
    assert talk.answer() == "and now"


def test_only_the_user_sends_pictures(talk: Talk) -> None:
    assert "only the user sends" in talk.show(picture(), role="system")["error"]["message"]


def test_the_oldest_pictures_make_room(talk: Talk) -> None:
    most = Conversation.PICTURES
    names = [talk.show(said(f"picture {at}"), picture())["item"]["id"] for at in range(most)]
    talk.show(said("no picture"))
    talk.send("conversation.item.create", item={"type": "message", "role": "user", "content": [picture()]})
    assert talk.until("conversation.item.deleted")[-1]["item_id"] == names[0]
    assert talk.answer().startswith(f"{most} images of ")


def test_one_event_brings_few_pictures(talk: Talk) -> None:
    refused = talk.show(*[picture() for _ in range(Conversation.PICTURES + 1)])
    assert "brings 4 pictures; the limit is 3" in refused["error"]["message"]


def test_no_answer_takes_more_by_references(talk: Talk) -> None:
    name = talk.show(picture(), picture())["item"]["id"]
    item = {"type": "message", "role": "user", "content": [picture(), picture()]}
    talk.send("response.create", response={"input": [{"type": "item_reference", "id": name}, item]})
    failed = talk.until("response.done")
    assert failed[-1]["response"]["status"] == "failed"
    assert any("4 pictures; the limit is 3" in one["error"]["message"] for one in failed if one["type"] == "error")


def test_a_server_without_a_model_for_pictures() -> None:
    with (
        serving(fake_pool(["llm", "asr", "tts"])) as running,
        connect(f"{running.url.replace('http', 'ws', 1)}/v1/realtime") as socket,
    ):
        refused = Talk(socket).show(picture())
        assert refused["error"]["code"] == "engine_not_configured"
