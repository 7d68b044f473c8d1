"""Several answers at a time on a real small model: each as if it were alone.

The prompts repeat themselves, so that the continuation is beyond doubt. A call of many tokens rounds otherwise than a
call of one, which turns answers that hang in the balance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.hot import hot, hot_engines
from support.tiny_gguf import write_model
from support.together import together

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.options import BESIDE
from edgeserve.messages import ChatRequest, Sampling

pytestmark = pytest.mark.models
SENTENCES = (
    "The lighthouse keeper wrote down every ship that passed, its flag, its cargo and the weather. ",
    "Recipes for bread begin with flour, water, salt and yeast; the rest is time and patience. ",
    "Seven bridges cross the river, and each of them has a story that children know by heart. ",
    "In spring the market sells strawberries, radishes, tulips and the first honey of the year. ",
)


def looped(number: int, times: int = 4, words: int = 3) -> str:
    """A sentence over and over, broken off after its first words."""
    sentence = SENTENCES[number % len(SENTENCES)]
    return sentence * times + " ".join(sentence.split()[:words])


def ask(prompt: str, tokens: int = 12) -> ChatRequest:
    return ChatRequest(prompt=prompt, max_tokens=tokens, sampling=Sampling(temperature=0.0))


@pytest.fixture
def make(pulled: Callable[[str], Mapping[str, Path]]) -> Iterator[Callable[..., LlamaChat]]:
    def build(**options: object) -> LlamaChat:
        files = {"model": pulled("smollm2-135m-instruct")["model"]}
        options = {"context": 1024, **options}
        return LlamaChat(
            ModelSpec("llm", "smollm2", "edgeserve.engines.llama.chat:LlamaChat", files, threads=2, options=options)
        )

    with hot_engines(build) as make:
        yield make


def test_together_they_say_what_each_says_alone(make: Callable[..., LlamaChat]) -> None:
    engine = make(prefix_cache_mb=0)
    requests = [ask(looped(number)) for number in range(4)]
    alone = [together(engine, [request])[0][0] for request in requests]
    assert [text for text, _ in together(engine, requests)] == alone
    for number, text in enumerate(alone):
        assert SENTENCES[number].startswith(" ".join(SENTENCES[number].split()[:3]) + text[:20])


def test_beside_the_slots_they_say_what_each_says_alone(make: Callable[..., LlamaChat]) -> None:
    engine = make(prefix_cache_mb=0, parallel=1)
    assert engine.beside == BESIDE
    requests = [ask(looped(number)) for number in range(4)]
    alone = [together(engine, [request])[0][0] for request in requests]
    told = together(engine, requests)
    assert [text for text, _ in told] == alone
    assert [end.slot for _, end in told if end] == [0, -1, -1, -1], "all at once"
    assert [one.tokens > 0 for one in engine.slot_states()] == [True]


@pytest.mark.parametrize(("architecture", "window"), [("mamba", "sliding"), ("gemma3", "sliding"), ("gemma3", "full")])
def test_where_a_sequence_costs_memory_there_is_one_beside(tmp_path: Path, architecture: str, window: str) -> None:
    files = {"model": write_model(tmp_path / "tiny.gguf", architecture)}
    options = {"context": 256, "parallel": 2, "window": window}
    with hot(LlamaChat(ModelSpec("llm", "tiny", "", files, "cpu", 1, options))) as engine:
        assert engine.beside == (1 if window == "sliding" else BESIDE)
        asked = [
            ChatRequest(prompt=tuple(range(seed, 40 + seed)), max_tokens=9, ignore_eos=True, sampling=Sampling(0.0))
            for seed in range(3)
        ]
        ends = [end for _, end in together(engine, asked) if end]
    assert [(end.completion_tokens, end.slot) for end in ends] == [(9, 0), (9, 1), (9, -1)]


def test_one_that_leaves_changes_nothing_for_the_others(make: Callable[..., LlamaChat]) -> None:
    requests = [ask(looped(number)) for number in range(3)]
    engine = make(prefix_cache_mb=0)
    whole = together(engine, requests)
    left = together(make(prefix_cache_mb=0), requests, leave=1)
    assert left[1][1] is None
    assert [left[0], left[2]] == [whole[0], whole[2]]


def test_a_beginning_is_decoded_once_for_all(make: Callable[..., LlamaChat]) -> None:
    engine = make()
    begin = looped(0, times=3)
    first = together(engine, [ask(begin)])[0][1]
    assert first is not None
    ends = [
        end for _, end in together(engine, [ask(f"{begin} {word}") for word in ("sea", "storm", "harbour", "gull")])
    ]
    assert all(end is not None and end.cached_tokens >= first.prompt_tokens - 2 for end in ends)


def test_in_a_context_too_small_for_all_each_is_answered_in_full(make: Callable[..., LlamaChat]) -> None:
    engine = make(context=256, prefix_cache_mb=0)
    requests = [ask(looped(number, times=4), tokens=24) for number in range(4)]
    told = together(engine, requests)
    assert sum(end.prompt_tokens + end.completion_tokens for _, end in told if end) > 256
    for number, (text, end) in enumerate(told):
        assert end is not None
        assert end.completion_tokens == 24
        assert text[:30] in SENTENCES[number] * 2


def test_edited_conversations_say_what_a_fresh_engine_says(make: Callable[..., LlamaChat]) -> None:
    """Small models of random weights have the long form of this, in test_edits.py."""
    dice = random.Random(0)
    engine, fresh = make(parallel=2), make(prefix_cache_mb=0, parallel=1)
    texts = [looped(number) for number in range(3)]
    for _ in range(8):
        number = dice.randrange(3)
        kept = texts[number][: dice.randrange(40, len(texts[number]))] if dice.random() < 0.3 else texts[number]
        texts[number] = kept if kept.endswith(SENTENCES[number][:12]) else looped(number, times=dice.randrange(2, 5))
        told = together(engine, [ask(texts[number], 6), ask(texts[(number + 1) % 3], 6)])[0]
        alone = together(fresh, [ask(texts[number], 6)])[0]
        assert told[0] == alone[0]
        texts[number] += told[0]
        if dice.random() < 0.25:
            engine.park()
            engine.heat()
