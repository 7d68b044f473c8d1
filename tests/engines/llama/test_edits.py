"""An edited, saved or restored conversation gets the answer that a fresh engine gives.

The models are small and of random weights, one for each kind of memory: a wrong rollback shows in the next token.

Two ways to the same state round differently. An edited cache holds its tokens in another order, and llama.cpp's flash
attention sums them up in 16 bits in that order. No option makes that exact. So an answer may differ from the fresh one
only where the fresh engine finds two tokens as good as equal, and rarely. A wrong state is off by far more.

llama.cpp overwrites tokens that slid out of a window only when room is short, hence the longer turns there. From 64
tokens in a call the order of summing changes once more; calls stay below that number, so that little is in doubt.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.hot import hot_engines
from support.tiny_gguf import VOCABULARY, write_model
from support.together import events_together

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.options import BATCH
from edgeserve.messages import ChatRequest, FinishEvent, Sampling, TokenEvent, TokenLogprob

pytestmark = pytest.mark.models
CONVERSATIONS, ANSWER = 100, 4
DOUBT = 0.15
"""Two tokens whose log-probabilities differ by less are as good as equal. A wrong state is off by about 1."""
Turns = list[tuple[int, ...]]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., LlamaChat]]:
    def build(architecture: str, **options: object) -> LlamaChat:
        path = tmp_path / f"{architecture}.gguf"
        files = {"model": path if path.exists() else write_model(path, architecture)}
        options = {"context": 2048, **options}
        return LlamaChat(
            ModelSpec("llm", architecture, "edgeserve.engines.llama.chat:LlamaChat", files, threads=1, options=options)
        )

    with hot_engines(build) as make:
        yield make


def words(dice: random.Random, most: int) -> tuple[int, ...]:
    return tuple(dice.randrange(1, VOCABULARY) for _ in range(dice.randrange(1, most)))


def edit(dice: random.Random, turns: Turns, most: int) -> None:
    """As a user does: go on, go back, put another turn in the place of one, put one between two; of ``most`` words."""
    at = dice.randrange(1, len(turns)) if len(turns) > 1 else 1
    what = dice.choice(("go on", "truncate", "replace", "insert"))
    if what == "truncate":
        del turns[at + 1 :]
    elif what == "replace":
        turns[at : at + 1] = [words(dice, most)]
    elif what == "insert":
        turns.insert(at, words(dice, most))
    turns.append(words(dice, most))


def answers(engine: LlamaChat, asked: Sequence[Turns]) -> list[tuple[list[TokenLogprob], FinishEvent]]:
    """The tokens of each with the two likeliest in their place, and its end."""
    greedy = Sampling(temperature=0.0)
    requests = [ChatRequest(prompt=sum(one, ()), max_tokens=ANSWER, sampling=greedy, logprobs=2) for one in asked]
    told = []
    for *events, end in events_together(engine, requests):
        assert isinstance(end, FinishEvent)
        told.append(([one for event in events if isinstance(event, TokenEvent) for one in event.logprobs], end))
    return told


def fresh_answer(engine: LlamaChat, turns: Turns) -> list[TokenLogprob]:
    """The answer of an engine with one slot that keeps nothing: another prompt makes it forget every conversation."""
    answers(engine, [[(0,)]])
    [(tokens, end)] = answers(engine, [turns])
    assert end.cached_tokens == 0
    return tokens


def differs(told: list[TokenLogprob], fresh: list[TokenLogprob]) -> bool:
    """In a token that hung in the balance; fails when it did not, or when the same token is much less likely."""
    for ours, theirs in zip(told, fresh, strict=True):
        first, second = theirs.top
        if ours.token.data != theirs.token.data:
            assert first.logprob - second.logprob < DOUBT
            return True
        assert ours.token.logprob == pytest.approx(theirs.token.logprob, abs=DOUBT)
    return False


@pytest.mark.parametrize(
    ("architecture", "options", "batch", "most"),
    [
        ("llama", {}, 48, 30),
        ("llama", {"kv_type": "q8_0"}, BATCH, 30),
        ("gemma3", {}, 48, 60),
        ("gemma3", {"window": "full"}, 48, 30),
        ("mamba", {}, BATCH, 30),
    ],
)
def test_edited_conversations(
    make: Callable[..., LlamaChat],
    tmp_path: Path,
    architecture: str,
    options: dict[str, object],
    batch: int,
    most: int,
) -> None:
    disk = {"prefix_cache_mb": 1, "prefix_cache_disk_mb": 2, "prefix_cache_dir": str(tmp_path / "states")}
    engine = make(architecture, parallel=3, batch=batch, **disk, **options)
    fresh = make(architecture, parallel=1, batch=batch, prefix_cache_mb=0, **options)
    dice, cached, asks, doubtful = random.Random(7), 0, 0, 0
    begins, talks = [words(dice, 60) + words(dice, 60) for _ in range(3)], []
    for number in range(CONVERSATIONS):
        talks.append([dice.choice(begins), words(dice, most)])
        asked = [talks[-1], *dice.sample(talks[-8:-1], min(2, number))]
        for turns in asked[1:]:
            edit(dice, turns, most)
        for turns, (told, end) in zip(asked, answers(engine, asked), strict=True):
            doubtful += differs(told, fresh_answer(fresh, turns))
            turns.append(tuple(int(one.token.data[4:-1]) for one in told))
            cached, asks = cached + end.cached_tokens, asks + 1
        if dice.random() < 0.3:
            list(engine.idle_work())
        if dice.random() < 0.1:
            engine.park()
            engine.heat()
    assert cached > 50 * CONVERSATIONS
    assert doubtful <= 0.02 * asks


@pytest.mark.parametrize(("parked", "copies"), [(False, 0), (True, 1)])
def test_no_copies_are_made_where_memory_was_needed_while_hot(
    make: Callable[..., LlamaChat], parked: bool, copies: int
) -> None:
    engine = make("llama", parallel=2, prefix_cache_mb=1)
    answers(engine, [[(1,) * 50]])
    assert len(list(engine.idle_work())) == 1
    if parked:
        engine.park()
    engine.shed("prefix_cache", engine.savings()["prefix_cache"])
    assert engine.savings()["prefix_cache"] == 0
    engine.heat()
    answers(engine, [[(2,) * 50]])
    assert len(list(engine.idle_work())) == copies
