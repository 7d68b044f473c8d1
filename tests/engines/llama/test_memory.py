"""Memory that the language model takes, gives back, keeps and can do without, on a real small model."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.gates import gate_of
from support.memory import World

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.llama import probe
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.errors import ContextOverflow, DoesNotFit
from edgeserve.messages import ChatRequest, FinishEvent, Sampling, TokenEvent
from edgeserve.system import growth, heap, libc, pages

Pulled = Callable[[str], Mapping[str, Path]]
MB = 1 << 20
STORY = (
    "The lighthouse keeper wrote down every ship that passed, its flag, its cargo and the weather. " * 4 + "The light"
)
OTHER = "Recipes for bread begin with flour, water, salt and yeast; the rest is time and patience. " * 4 + "Recipes for"
"""Repeated, so that the continuation is beyond doubt however the prompt was cut into batches."""

pytestmark = pytest.mark.models


@pytest.fixture
def spec(pulled: Pulled) -> ModelSpec:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    return ModelSpec(
        "llm", "smollm2", "edgeserve.engines.llama.chat:LlamaChat", files, threads=2, options={"context": 1024}
    )


@pytest.fixture
def engine(spec: ModelSpec) -> Iterator[LlamaChat]:
    engine = LlamaChat(spec)
    heap.collect()  # else the heap's free pages serve the engine, and it seems to take less
    engine.open()
    engine.heat()
    yield engine
    engine.close()


def say(engine: LlamaChat, prompt: str, tokens: int = 8) -> tuple[str, int]:
    """The text, and how many prompt tokens were in a cache."""
    request = ChatRequest(prompt=prompt, max_tokens=tokens, sampling=Sampling(temperature=0.0))
    *events, finish = engine.chat(request, threading.Event())
    assert isinstance(finish, FinishEvent)
    return "".join(one.text for one in events if isinstance(one, TokenEvent)), finish.cached_tokens


def test_a_hot_engine_tells_of_its_copy_and_is_parked_for_it(spec: ModelSpec) -> None:
    engine = LlamaChat(dataclasses.replace(spec, options={**spec.options, "tuned": {"repack": "on"}}))
    assert engine.savings()["copy"] == 0
    engine.open()
    engine.heat()
    size = spec.files["model"].stat().st_size
    assert (engine.savings()["reordered"], engine.savings()["copy"]) == (0, size)
    engine.park()
    assert (engine.savings()["reordered"], engine.savings()["copy"]) == (size, 0)
    engine.shed("reordered", size)
    engine.heat()
    assert engine.savings()["copy"] == 0, "mapped weights"
    engine.close()


def test_a_way_up_beside_a_preparation_is_not_exact(spec: ModelSpec) -> None:
    engine = LlamaChat(spec)
    for work, step, exact in [(False, "open", True), (True, "heat", False), (False, "heat", True)]:
        with growth.others.work() if work else contextlib.nullcontext():
            getattr(engine, step)()
        assert engine.footprint().exact is exact
        engine.park()
    engine.close()
    assert engine.footprint().exact


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists its mappings")
def test_no_page_is_walked_to_tell_what_a_way_up_took(engine: LlamaChat, monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[Path] = []
    counted = pages.resident_mapped
    monkeypatch.setattr(pages, "resident_mapped", lambda path: walks.append(path) or counted(path))
    known = engine.footprint().mapped
    assert not walks
    assert engine.footprint().mapped == known, "the same by a walk"
    assert len(walks) == 1
    engine.park()
    assert engine.footprint().mapped == 0
    engine.heat()
    assert (engine.footprint().mapped, len(walks)) == (known, 1)
    pages.drop_mapped(engine.spec.files["model"])  # as the kernel does under pressure
    assert (engine.footprint().mapped, len(walks)) == (0, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists its mappings")
def test_pages_are_counted_where_the_kernel_can_only_be_advised(
    engine: LlamaChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 5.14 none were known to be resident, and the model seemed to take no memory."""
    engine.park()
    advise = libc.advise
    monkeypatch.setattr(libc, "advise", lambda at, size, how: how != libc.POPULATE_READ and advise(at, size, how))
    monkeypatch.setattr(pages, "resident_mapped", lambda path: 7 * MB)
    engine.heat()
    assert engine.footprint().mapped == 7 * MB


def test_a_parked_conversation_goes_on_where_it_was(engine: LlamaChat, spec: ModelSpec) -> None:
    first, cached = say(engine, STORY)
    assert cached == 0
    engine.park()
    kept = engine.savings()["prefix_cache"]
    assert 0 < kept < 64 * MB
    engine.heat()
    again, cached = say(engine, STORY + first)
    assert cached > 80
    engine.close()
    assert engine.savings()["prefix_cache"] == 0
    engine.open()
    engine.heat()
    fresh, cached = say(engine, STORY + first)
    assert cached == 0
    assert again == fresh


def test_conversations_in_turn_are_all_kept(engine: LlamaChat) -> None:
    texts = [say(engine, prompt)[0] for prompt in (STORY, OTHER)]
    for prompt, text in zip((STORY, OTHER, STORY), (*texts, texts[0]), strict=True):
        again, cached = say(engine, prompt)
        assert cached > 60
        assert again == text


def test_without_a_cache_nothing_is_kept(spec: ModelSpec) -> None:
    engine = LlamaChat(dataclasses.replace(spec, options={"context": 1024, "prefix_cache_mb": 0}))
    engine.open()
    engine.heat()
    say(engine, STORY)
    engine.park()
    assert engine.savings()["prefix_cache"] == 0
    engine.close()


def test_a_shrunk_context_takes_less_and_is_restored(engine: LlamaChat) -> None:
    full = engine.footprint().private
    assert engine.savings()["context"] == 0, "hot: the context is made"
    engine.park()
    offered = engine.savings()["context"]
    assert offered > 8 * MB
    before = engine.estimate().private
    engine.shed("context", offered)
    assert engine.estimate().private <= before - offered
    engine.heat()
    # Free pages of the heap that tests before this one left behind hide a part of what is taken.
    assert full - engine.footprint().private >= 0.75 * offered
    with pytest.raises(DoesNotFit, match="reduced from 1024 to 512"):
        say(engine, STORY * 8)
    engine.park()
    engine.restore()
    engine.heat()
    assert say(engine, STORY * 8)[0]
    with pytest.raises(ContextOverflow):
        say(engine, STORY * 20)


def test_an_engine_that_was_never_opened_shrinks_its_context_too(spec: ModelSpec) -> None:
    """Its twin in the serving process stands for an engine in a worker. The context became as long as memory allows."""
    engine = LlamaChat(dataclasses.replace(spec, options={"context": 2048}))
    engine.shed("context", 8 * MB)
    least = 2048 - 8 * MB // 23_040  # bytes of a token: 30 layers, three heads of 64 keys and values, two bytes each
    assert 512 <= engine.options.context <= least


@pytest.mark.parametrize("options", [{}, {"context": 512}, {"context": 4096, "kv_type": "q8_0"}])
def test_the_estimate_is_right(spec: ModelSpec, options: dict[str, object]) -> None:
    engine = LlamaChat(dataclasses.replace(spec, options=options))
    estimate = engine.estimate()
    base = pages.private_bytes()
    engine.open()
    engine.heat()
    say(engine, STORY)
    taken = pages.private_bytes() - base + pages.resident_mapped(spec.files["model"])
    assert estimate.mapped + estimate.private == pytest.approx(taken, rel=0.15)
    engine.close()


def test_without_a_layout_the_header_is_gone_by(spec: ModelSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = LlamaChat(spec).estimate()
    monkeypatch.setattr(probe, "measure", lambda *args: None)
    assert LlamaChat(spec).estimate().total == pytest.approx(exact.total, rel=0.15)


def test_each_step_down_returns_what_was_taken(engine: LlamaChat) -> None:
    for to in (Rung.WARM, Rung.COLD, Rung.WARM, Rung.COLD):
        engine.open()
        engine.heat()
        say(engine, STORY)
        before, taken = pages.private_bytes(), engine.footprint().private
        engine.park() if to is Rung.WARM else engine.close()
        kept = engine.footprint().private + engine.savings()["prefix_cache"]
        assert before - pages.private_bytes() >= 0.95 * (taken - kept)
        assert pages.resident_mapped(engine.spec.files["model"]) == 0


def test_repacked_weights_are_there_while_hot_only(spec: ModelSpec) -> None:
    plain, repacked = LlamaChat(spec), LlamaChat(dataclasses.replace(spec, options={"context": 1024, "repack": "on"}))
    for engine in (plain, repacked):
        engine.open()
        engine.heat()
    assert say(plain, STORY)[0] == say(repacked, STORY)[0]
    plain.close()
    before = pages.private_bytes()
    repacked.park()
    assert repacked.rung is Rung.WARM
    assert pages.private_bytes() < before
    assert pages.resident_mapped(spec.files["model"]) == 0
    repacked.close()


def test_a_context_as_large_as_memory_allows_is_cut_to_the_room_there_is(
    spec: ModelSpec, caplog: pytest.LogCaptureFixture
) -> None:
    """The governor has 300 MB: 92 of them for the weights; from 180 private ones, pressure would be moderate."""
    engine = LlamaChat(dataclasses.replace(spec, options={"context": 0}))
    world = World(300)
    gate = gate_of(engine, world.governor, clock=world.clock)
    world.governor.adopt(gate)
    gate.map()
    assert engine.estimate().private == pytest.approx(220e6, rel=0.1), "8,192 tokens, as it was trained on"
    with caplog.at_level(logging.INFO, "edgeserve.llama"):
        gate.preload()
    [told] = [record.args for record in caplog.records if "it was trained on" in record.msg]
    name, tokens, trained = told or (0, 0, 0)
    assert (name, trained) == ("smollm2", 8192)
    assert isinstance(tokens, int)
    assert 5000 < tokens < 8192
    assert tokens % 256 == 0
    assert engine.footprint().private < 180 * MB
    assert engine.estimate().private == pytest.approx(engine.footprint().private, rel=0.15)
    assert 92 + 150 < world.booked() / MB < 92 + 180
    with pytest.raises(ContextOverflow, match=f"Memory has room for {tokens} of 8192 tokens: for more, set context"):
        say(engine, STORY * 100)
    assert world.governor.step_down(gate, Rung.WARM, "requested")
    world.probe.total = 4000 * MB
    gate.preload()
    with pytest.raises(ContextOverflow, match="the context holds 8192"):
        say(engine, STORY * 120)
    gate.stop()
