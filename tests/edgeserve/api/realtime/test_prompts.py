"""Prompts that are read while the user still speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
from support.gates import FAKES
from support.server import fake_pool, until

from edgeserve.api.limits import Limits
from edgeserve.api.realtime import prompts
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.engines import Engines
from edgeserve.api.realtime.items import Item
from edgeserve.engine import Cancel
from edgeserve.engines.fake.chat import FakeBatchChat
from edgeserve.live.ear import Ear
from edgeserve.live.sessions import Sessions
from edgeserve.messages import ChatEvent, ChatRequest, Message, PromptEvent, TextPart
from edgeserve.residency.pool import Pool
from edgeserve.talk.first_sounds import FirstSounds

SEEN: list[ChatRequest] = []
REQUEST = ChatRequest((Message("user", (TextPart("hello there"),)),), salt="s")


class Reading(FakeBatchChat):
    """Notes its requests. It reads a prompt that is read ahead until nobody wants it any more."""

    def _answers(self, request: ChatRequest, cancel: Cancel) -> Generator[ChatEvent | None, None, None]:
        SEEN.append(request)
        while request.ahead and not cancel.is_set():
            yield PromptEvent(100, 0, 1)
            yield None
        yield from super()._answers(request, cancel)


@pytest.fixture
def pool() -> Any:
    SEEN.clear()
    return fake_pool(["llm", "asr", "tts"], fakes={**FAKES, "llm": Reading})


def test_a_prompt_is_read_until_another_engine_has_work(pool: Any) -> None:
    async def scene() -> None:
        await pool.preload(["llm", "tts"])
        reading = asyncio.create_task(prompts.read_ahead(pool, "llm", REQUEST))
        await asyncio.to_thread(until, lambda: bool(SEEN))
        assert not reading.done()
        async with await pool.lease("tts"):
            await reading
        await asyncio.to_thread(until, lambda: pool.gates["llm"].leases == 0)
        await pool.stop()

    asyncio.run(asyncio.wait_for(scene(), 30))
    (seen,) = SEEN
    assert (seen.messages, seen.salt) == (REQUEST.messages, REQUEST.salt)
    assert (seen.max_tokens, seen.generation_prompt, seen.ahead) == (0, False, True)


@pytest.mark.parametrize("busy", ["llm", "asr"])
def test_nothing_is_read_where_an_engine_has_work(pool: Any, busy: str) -> None:
    async def scene() -> None:
        await pool.preload(["llm", busy])
        async with await pool.lease(busy):
            await prompts.read_ahead(pool, "llm", REQUEST)
        await pool.stop()

    asyncio.run(asyncio.wait_for(scene(), 30))
    assert SEEN == []


def test_no_model_is_loaded_for_it(pool: Any) -> None:
    asyncio.run(asyncio.wait_for(prompts.read_ahead(pool, "llm", REQUEST), 30))
    assert SEEN == []


class Sent:
    """Messages of items; pictures are none of their business."""

    async def messages(self, items: list[Item]) -> list[Message]:
        return [message for one in items if (message := one.message()) is not None]


@pytest.mark.parametrize(("change", "reads"), [({}, True), ({"create_response": False}, False), (None, False)])
def test_the_prompt_is_that_of_the_coming_answer(
    pool: Any, monkeypatch: pytest.MonkeyPatch, change: dict[str, bool] | None, reads: bool
) -> None:
    """A client that begins its answers itself may ask for others."""
    found: list[ChatRequest] = []

    async def noted(pool: Pool, model: str, request: ChatRequest) -> None:
        found.append(request)

    monkeypatch.setattr(prompts, "read_ahead", noted)
    detection = {"type": "server_vad", **change} if change is not None else None
    settings = {"instructions": "Be kind.", "audio": {"input": {"turn_detection": detection}}}
    config = Config.new(Limits()).changed(settings, Limits())
    sent: Any = Sent()
    engines = Engines(pool, sent, FirstSounds(), Sessions(Ear(pool)), salt="s")
    item = Item("a", role="user", content=[{"type": "input_text", "text": "Hello."}])
    asyncio.run(engines.read_ahead(config, [item], "And you?"))
    asyncio.run(pool.stop())
    turn = Item("b", role="user", content=[{"type": "input_audio", "transcript": "And you?"}])
    messages = asyncio.run(sent.messages([item, turn]))
    assert found == ([prompts.asked(config, messages, "s")] if reads else [])


def test_a_conversation_with_pictures_is_not_read_ahead(pool: Any) -> None:
    """Each pause would decode them again, for a prompt that is not read."""

    class Decoding(Sent):
        async def messages(self, items: list[Item]) -> list[Message]:
            raise AssertionError("the pictures are decoded")

    settings = {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
    sent: Any = Decoding()
    engines = Engines(pool, sent, FirstSounds(), Sessions(Ear(pool)), salt="s")
    item = Item("a", role="user", content=[{"type": "input_image"}], pictures={0: b"a picture"})
    asyncio.run(engines.read_ahead(Config.new(Limits()).changed(settings, Limits()), [item], ""))
    asyncio.run(pool.stop())


@pytest.mark.parametrize(
    ("roles", "left"), [("uaua", "ua"), ("uatu", "u"), ("u", ""), ("att", "t"), ("uat", "t"), ("uattuau", "uau")]
)
def test_the_later_half_begins_with_no_result_whose_call_is_gone(roles: str, left: str) -> None:
    names: Any = {"u": "user", "a": "assistant", "t": "tool"}
    messages = [Message(names[one], ()) for one in roles]
    assert [one.role for one in prompts.shortened(messages)] == [names[one] for one in left]
