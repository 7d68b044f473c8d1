"""Pictures of requests are read beside the event loop, from data URLs too."""

from __future__ import annotations

import asyncio
import base64
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from support.pictures import IDLE, smallest_gif

from edgeserve.api.limits import Limits
from edgeserve.api.pictures.reader import PictureFilesHere, Reader
from edgeserve.errors import Cancelled, InvalidRequest, UnsupportedMedia
from edgeserve.media.leash import Leash
from edgeserve.messages import ImagePart

GIF = smallest_gif()


def reader(files: Any = None, *, gone: bool = False) -> Reader:
    """The reader of a request whose client stays, or is ``gone``."""

    async def receive() -> Any:
        return {"type": "http.disconnect"} if gone else await asyncio.Event().wait()

    state = SimpleNamespace(limits=Limits(), picture_files=files or PictureFilesHere(), pool=IDLE)
    return Reader.of(Request({"type": "http", "app": SimpleNamespace(state=state)}, receive))


def from_url(url: str) -> bytes | memoryview:
    return asyncio.run(reader().read_url(url, "image_url")).data


def test_data_urls() -> None:
    assert from_url(f"data:image/gif;base64,{base64.b64encode(GIF).decode()}") == GIF
    for url in (
        "data:image/png;base64,???",
        "data:image/png;base64,é",
        "data:image/png;base64,\ud800",
        "data:x;base64,A",
    ):
        with pytest.raises(InvalidRequest, match="not base64"):
            from_url(url)
    for url in ("data:image/png,abc", "data:", "data:,"):
        with pytest.raises(InvalidRequest, match="expected data:image"):
            from_url(url)
    with pytest.raises(UnsupportedMedia, match="image_url is empty"):
        from_url("data:x;base64,")


class Recorder(PictureFilesHere):
    """Records its threads and leashes; waits for a cut where it is told to."""

    def __init__(self, *, waits: bool = False) -> None:
        self.threads: list[threading.Thread] = []
        self._waits, self._cut = waits, threading.Event()

    def read(self, data: bytes, limits: Limits, param: str, leash: Leash) -> ImagePart:
        self.threads.append(threading.current_thread())
        leash.hold(self._cut.set)
        assert not self._waits or self._cut.wait(10)
        leash.check()
        return ImagePart(data, param)


def test_pictures_are_read_beside_the_event_loop() -> None:
    """Inflating a picture may take half a second."""
    files = Recorder()

    async def work() -> None:
        await reader(files).read(b"")
        await reader(files).read_url("data:image/png;base64,", "image_url")

    asyncio.run(work())
    assert len(files.threads) == 2
    assert threading.main_thread() not in files.threads


def test_a_client_that_leaves_ends_the_work_on_its_picture() -> None:
    with pytest.raises(Cancelled):
        asyncio.run(reader(Recorder(waits=True), gone=True).read(GIF))
