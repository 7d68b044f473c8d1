"""Contexts of reordered weights: calls are filled up to whole rows, and nobody notices but the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hot import hot_engines
from support.tiny_gguf import write_model
from support.together import events_together, text_of

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import Context, Item
from edgeserve.engines.llama.runtime import llama
from edgeserve.messages import ChatRequest, Sampling

pytestmark = pytest.mark.models
Make = Callable[..., LlamaChat]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    def build(architecture: str = "llama", **options: object) -> LlamaChat:
        path = tmp_path / f"{architecture}.gguf"
        files = {"model": path if path.exists() else write_model(path, architecture)}
        options = {"context": 256, "parallel": 3, "speculation": "off", "prefix_cache_mb": 0, **options}
        return LlamaChat(ModelSpec("llm", "tiny", "", files, "cpu", 1, options))

    with hot_engines(build) as make:
        yield make


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tokens of each call of llama.cpp."""
    found: list[int] = []
    decode = llama().llama_decode

    def counted(context: Any, batch: Any) -> Any:
        found.append(int(batch.n_tokens))
        return decode(context, batch)

    monkeypatch.setattr(llama(), "llama_decode", counted)
    return found


def context_of(engine: LlamaChat) -> Context:
    assert engine._batch is not None
    return engine._batch.context


def items(count: int, begin: int = 0) -> list[Item]:
    return [Item(1 + at, begin + at, 0, at == count - 1) for at in range(count)]


def test_three_others_are_filled_up_and_the_filler_leaves_no_cell(make: Make, sizes: list[int]) -> None:
    context = context_of(make(repack="on"))
    for count, decoded in ((1, 1), (2, 2), (3, 4), (4, 4), (6, 6), (7, 8)):
        context.clear(0)
        assert context.decode(items(count))
        assert sizes[-1] == decoded
    assert context.decode(items(context.size - 7, 7)[:-1][: context.batch])


def test_a_full_context_takes_the_call_without_its_filler(make: Make, sizes: list[int]) -> None:
    context = context_of(make(repack="on"))
    assert context.decode(items(context.size - 3))
    assert context.decode(items(3, context.size - 3))
    assert sizes[-2:] == [4, 3]
    assert not context.decode(items(3, context.size))


def test_the_largest_call_is_not_filled(make: Make, sizes: list[int]) -> None:
    context = context_of(make(repack="on", batch=35, context=512))
    assert context.batch == 35
    assert context.decode(items(35))
    assert sizes[-1] == 35


@pytest.mark.parametrize(("architecture", "beside", "options"), [("llama", 4, {}), ("mamba", 1, {"repack": "on"})])
def test_other_contexts_have_no_filler(
    make: Make, sizes: list[int], architecture: str, beside: int, options: dict[str, object]
) -> None:
    engine = make(architecture, **options)
    assert context_of(engine).sequences == 3 + beside
    assert context_of(engine).decode(items(3))
    assert sizes[-1] == 3


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_answers_are_the_same(make: Make, sizes: list[int], architecture: str) -> None:
    asked = [
        ChatRequest(prompt=tuple(range(seed, 30 + 2 * seed)), max_tokens=20, ignore_eos=True, sampling=Sampling(0.0))
        for seed in (1, 2, 3)
    ]
    plain = [text_of(one) for one in events_together(make(architecture), asked)]
    del sizes[:]
    filled = [text_of(one) for one in events_together(make(architecture, repack="on"), asked)]
    assert sizes.count(4) > 10
    assert sum(one != other for one, other in zip(plain, filled, strict=True)) <= 1
