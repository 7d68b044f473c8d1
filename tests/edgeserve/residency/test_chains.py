"""Engines heated ahead when a request of a kind begins (``when`` in models.toml), on a server of fake engines."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.cases import each
from support.contract import ask
from support.gates import Clock, CountingGovernor, Held, Mailbox, engine_of, run
from support.server import lower, serving, small_pool, until

from edgeserve.engine import Rung
from edgeserve.errors import Busy, DoesNotFit
from edgeserve.jobs import Job
from edgeserve.messages import (
    ChatRequest,
    EmbedRequest,
    ImagePart,
    Message,
    Pcm,
    Request,
    SpeakRequest,
    TextPart,
    TranscribeRequest,
)
from edgeserve.residency.ahead import loaded
from edgeserve.residency.gate import Gate
from edgeserve.residency.lease import Lease
from edgeserve.residency.work import kind_of

ENGINES: Mapping[Job, dict[str, float]] = {
    "llm": {"private_mb": 200.0},
    "tts": {"private_mb": 200.0},
    "asr": {"private_mb": 200.0},
}
CHAINS: Mapping[str, tuple[Job, ...]] = {"speak": ("llm", "asr")}


@each(
    ("request_", "kind"),
    [
        (ChatRequest(prompt="hello"), "chat"),
        (EmbedRequest(("hello",)), "embed"),
        (ChatRequest((Message("user", (TextPart("what?"), ImagePart(b""))),)), "vision"),
        (TranscribeRequest(Pcm(b"")), "transcribe"),
        (SpeakRequest("hello"), "speak"),
    ],
)
def test_kinds(request_: Request, kind: str) -> None:
    assert kind_of(request_) == kind


def test_an_engine_is_heated_ahead(gates: Callable[..., Gate]) -> None:
    clock, governor = Clock(), CountingGovernor()
    gate = gates(governor=governor, clock=clock)
    clock.now += 500
    gate.warm_up()
    until(lambda: gate.rung is Rung.HOT and not gate.warming)
    assert gate.last_used == clock.now
    assert (governor.reserved, governor.settled, governor.released) == (1, 1, 1)
    gate.warm_up()
    assert run(gate, ask("word"))[1] is None
    assert engine_of(gate).steps == ["open", "heat"]


@pytest.mark.parametrize(
    ("settings", "logged"),
    [
        ({"governor": CountingGovernor(refuse=DoesNotFit("too big"))}, "does not fit as things stand"),
        ({"options": {"fail_on": "heat"}}, "was not heated ahead: fake-llm failed on heat"),
    ],
)
def test_what_cannot_be_heated_ahead_stays_quietly_cold(
    gates: Callable[..., Gate], caplog: pytest.LogCaptureFixture, settings: dict[str, Any], logged: str
) -> None:
    gate = gates(**settings)
    with caplog.at_level(logging.DEBUG, "edgeserve.gate"):
        gate.warm_up()
        until(lambda: logged in caplog.text and not gate.warming)
    assert gate.rung is Rung.COLD


def test_a_gate_that_has_work_or_closes_is_not_heated_ahead(gates: Callable[..., Gate]) -> None:
    governor = CountingGovernor()
    gate = gates(governor=governor)
    held = Held(engine_of(gate))
    box = Mailbox()
    gate.acquire()
    gate.submit(box.work(ask("word")))
    assert held.entered.wait(10)
    gate.warm_up()
    held.go.set()
    box.rest()
    gate.release()
    lower(gate, Rung.COLD)
    gate.drain(0)
    gate.warm_up()
    gate.stop()
    assert governor.reserved == 1


def test_what_fits_is_heated_when_the_request_begins() -> None:
    with serving(small_pool(2000, ENGINES, CHAINS)) as running:
        gates = running.pool.gates
        assert running.client.post("/v1/tts/synthesize", json={"text": "hello"}).status_code == 200
        until(lambda: gates["llm"].rung is gates["asr"].rung is Rung.HOT)
        assert running.client.post("/v1/chat", json={"prompt": "hello"}).json() == {"text": "hello"}
        engine: Any = engine_of(gates["llm"])
        assert engine.steps == ["open", "heat"]


def test_what_does_not_fit_is_left_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """In 700 MB there is room for two: the second is heated, the third is not, and nobody goes for it."""
    with caplog.at_level(logging.DEBUG, "edgeserve.gate"), serving(small_pool(700, ENGINES, CHAINS)) as running:
        gates = running.pool.gates
        assert running.client.post("/v1/tts/synthesize", json={"text": "hello"}).status_code == 200
        until(lambda: "does not fit as things stand" in caplog.text)
        until(lambda: sorted(gate.rung for gate in gates.values()) in ([0, 2, 2], [1, 2, 2]))
        assert gates["tts"].rung is Rung.HOT
        assert running.client.get("/memory/evictions").json() == []
        assert not any(record.levelno > logging.INFO for record in caplog.records)


def test_what_cannot_be_heated_disturbs_nobody() -> None:
    broken = {**ENGINES, "llm": {"fail_on": "heat"}}
    with serving(small_pool(2000, broken, CHAINS)) as running:  # type: ignore[arg-type]
        gates = running.pool.gates
        assert running.client.post("/v1/tts/synthesize", json={"text": "hello"}).status_code == 200
        until(lambda: gates["asr"].rung is Rung.HOT)
        until(lambda: gates["llm"].rung is Rung.COLD and not gates["llm"].warming)


def test_a_model_may_leave_while_it_is_to_be_heated_ahead() -> None:
    """A request begins on a thread of its host, and models come and go on the event loop."""

    async def test() -> None:
        pool = small_pool(2000, ENGINES, CHAINS)

        class Gates(dict[str, Gate]):
            """Another mapping takes its place as soon as somebody has looked into it."""

            def __contains__(self, model: object) -> bool:
                pool.gates = {}
                return super().__contains__(model)

        gates = dict(pool.gates)
        pool.gates = Gates(gates)
        lease = Lease(gates["tts"], pool.deliveries, pool.ahead.begun)
        gates["tts"].acquire()
        assert [event async for event in lease.run(SpeakRequest("hello"))]
        pool.gates = gates
        await pool.stop()

    asyncio.run(test())


def test_the_model_of_a_file_is_heated_while_the_file_is_read() -> None:
    """A file that turns out to be none heats the model too, for as long as memory is free."""
    with serving(small_pool(2000, ENGINES)) as running:
        gates = running.pool.gates
        assert running.client.post("/v1/transcribe/file", files={"audio": b"no sound"}).status_code == 415
        until(lambda: gates["asr"].rung is Rung.HOT)
        assert (gates["llm"].rung, gates["tts"].rung) == (Rung.WARM, Rung.COLD)


def test_a_file_moves_no_other_model(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "edgeserve.gate"), serving(small_pool(700, ENGINES)) as running:
        assert running.client.post("/memory/preload", json={"engines": ["llm", "tts"]}).is_success
        assert running.client.post("/v1/transcribe/file", files={"audio": b"no sound"}).status_code == 415
        until(lambda: "does not fit as things stand" in caplog.text and not running.pool.gates["asr"].warming)
        assert running.client.get("/memory/evictions").json() == []
        assert running.pool.gates["llm"].rung is running.pool.gates["tts"].rung is Rung.HOT


def test_a_load_that_fails_when_nobody_waits_any_more_is_no_error_of_the_event_loop() -> None:
    told: list[Mapping[str, Any]] = []

    async def left() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        load = Future[None]()
        waiting = asyncio.create_task(loaded(cast(Any, SimpleNamespace(preload_in_turn=[load].pop))))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        load.set_exception(Busy("a request came"))
        for _ in range(3):  # the loop hears of it
            await asyncio.sleep(0)

    asyncio.run(left())
    gc.collect()
    assert told == []
