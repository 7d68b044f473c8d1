"""Decoded pictures are given back as soon as the engine has read them, and not before."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from support.contract import ask
from support.gates import BATCHING_FAKES, FAKES, Held, engine_of
from support.server import fake_pool, until

from edgeserve.errors import EdgeserveError, EngineFailure, InvalidRequest
from edgeserve.messages import ChatRequest, ImagePart, LoosenedEvent, Message, PromptEvent, TextPart
from edgeserve.residency import failure
from edgeserve.residency.pictures import Pictures


def looking(image: ImagePart, words: str = "one two three") -> ChatRequest:
    return dataclasses.replace(ask("word"), messages=(Message("user", (image, TextPart(words))),))


def shared() -> ImagePart:
    return ImagePart(memoryview(bytearray(3)), size=(1, 1))


def is_held(image: ImagePart) -> bool:
    try:
        return len(image.data) > 0
    except ValueError:  # released
        return False


def test_news_about_the_schema_come_before_the_prompt_is_read() -> None:
    image = shared()
    pictures = Pictures([looking(image)])
    pictures.see(0, LoosenedEvent(("format",)))
    assert is_held(image)
    for _ in range(2):
        pictures.see(0, PromptEvent(4))
        assert not is_held(image)


def test_the_bytes_of_a_file_stay_and_so_does_memory_that_is_read() -> None:
    file, read = ImagePart(b"file"), shared()
    view = memoryview(read.data)
    for one in (file, read):
        Pictures([looking(one)]).see(0, PromptEvent(4))
    assert file.data == b"file"
    assert bytes(view) == bytes(3)


def test_an_answer_holds_its_pictures_until_its_first_event() -> None:
    """Its reader may take the rest in minutes, and others wait for the memory."""
    image = shared()

    async def scene() -> None:
        pool = fake_pool(["vision"])
        async with await pool.lease("vision") as lease:
            events = lease.run_all([looking(image)])
            await anext(events)
            assert not is_held(image)
            await events.aclose()
        await pool.stop()

    asyncio.run(scene())


def test_requests_that_share_a_picture_hold_it_until_all_have_read_it() -> None:
    image = shared()
    pictures = Pictures([looking(image), looking(image)])
    for number, held in ((0, True), (0, True), (1, False)):
        pictures.see(number, PromptEvent(4))
        assert is_held(image) is held


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Memory(bytearray):
    """Its end can be noticed."""


def watched(words: str) -> tuple[ChatRequest, weakref.ref[Memory]]:
    memory = Memory(3)
    return looking(ImagePart(memoryview(memory), size=(1, 1)), words), weakref.ref(memory)


@pytest.mark.usefixtures("no_collections")
def test_a_request_whose_client_leaves_gives_its_pictures_back_without_a_collection() -> None:
    """Clients that leave early would else hold the places of all pictures, for as long as nothing else happens."""

    async def scene() -> None:
        pool = fake_pool(["vision"])
        held = Held(engine_of(pool.gates["vision"]))
        lease = await pool.lease("vision")
        left, memory = watched("word")
        reading = asyncio.ensure_future(anext(lease.run_all([left, ask("word")])))
        del left
        await asyncio.to_thread(held.entered.wait, 10)
        await lease.release()
        held.go.set()
        await asyncio.wait([reading])
        with contextlib.suppress(EdgeserveError):
            reading.result()
        del reading, lease
        await asyncio.to_thread(until, lambda: memory() is None)
        await pool.stop()

    asyncio.run(scene())


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("fakes", [FAKES, BATCHING_FAKES], ids=["alone", "in a batch"])
@pytest.mark.parametrize("error", [InvalidRequest("odd", param="prompt"), EngineFailure("broken"), ValueError("odd")])
def test_a_request_that_fails_is_gone_without_a_collection(
    monkeypatch: pytest.MonkeyPatch, fakes: Any, error: Exception
) -> None:
    """An idle server collects nothing: pictures and prompts of failed requests stayed for as long."""
    monkeypatch.setattr(failure.log, "error", lambda *told, **more: None)  # the suite keeps records of errors

    async def scene() -> None:
        pool = fake_pool(["vision"], fakes=fakes)
        gate = pool.gates["vision"]
        await asyncio.to_thread(gate.preload)
        failing, memory = watched("one two three")

        def fail() -> None:
            raise type(error)(*error.args)

        engine_of(gate).on_work = fail
        async with await pool.lease("vision") as lease:
            with contextlib.suppress(EdgeserveError):
                async for _ in lease.run(failing):
                    pass
        del failing, lease
        await asyncio.to_thread(until, lambda: memory() is None)
        await pool.stop()

    asyncio.run(scene())
