"""An answer is the same with drafts as without, whatever is guessed: text, end, counts, log probabilities and cache.

The guesses come from what the same request gave before; a share of them is wrong. A call of several tokens rounds
otherwise than a call of one. So an answer may differ where two tokens are as good as equal, and rarely.
test_answer.py has the exact form of this, without a model.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.guessing import GuessingChat
from support.spelling import slope
from support.tiny_gguf import VOCABULARY, write_model
from support.together import events_together, text_of

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.draft_model import DraftModel
from edgeserve.engines.llama.drafts import Drafts
from edgeserve.messages import ChatEvent, ChatRequest, FinishEvent, Sampling, TokenEvent, TokenLogprob

pytestmark = pytest.mark.models
Make = Callable[..., GuessingChat]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    folder, made = tmp_path_factory.mktemp("tiny"), dict[Any, GuessingChat]()

    def build(architecture: str = "llama", **options: object) -> GuessingChat:
        key = (architecture, *sorted(options.items()))
        if key not in made:
            path = folder / f"{architecture}.gguf"
            files = {"model": path if path.exists() else write_model(path, architecture)}
            options = {"context": 512, "prefix_cache_mb": 0, "flash_attention": "off", **options}
            spec = ModelSpec(
                "llm", architecture, "edgeserve.engines.llama.chat:LlamaChat", files, threads=1, options=options
            )
            made[key] = GuessingChat(spec)
            made[key].open()
            made[key].heat()
        return made[key]

    yield build
    for engine in made.values():
        engine.close()


DOUBT = 0.15
"""Two tokens whose log-probabilities differ by less are as good as equal (test_edits.py)."""


def spoken(events: Sequence[ChatEvent]) -> list[TokenLogprob]:
    return [one for event in events if isinstance(event, TokenEvent) for one in event.logprobs]


def numbers(tokens: Sequence[TokenLogprob]) -> list[int]:
    """Tokens of a tiny model, each of which is "word<number>,"."""
    return [int(one.token.data[len("word") : -1]) for one in tokens]


def part(one: Sequence[TokenLogprob], other: Sequence[TokenLogprob]) -> TokenLogprob | None:
    """The first token of ``one`` that ``other`` has not in its place; None when both are equal."""
    for left, right in zip(one, other, strict=False):
        if left.token.data != right.token.data:
            return left
        assert left.token.logprob == pytest.approx(right.token.logprob, abs=DOUBT)
    assert len(one) == len(other)
    return None


def answers(
    engine: GuessingChat, requests: Sequence[ChatRequest], mistakes: float
) -> Iterator[tuple[list[TokenLogprob], list[TokenLogprob]]]:
    """Each answer alone without drafts, and beside the others with them."""
    plain = [spoken(events_together(engine, [request])[0]) for request in requests]
    engine.guessing.known = [[*numbers(one), 5, 6] for one in plain]
    engine.guessing.mistakes, before = mistakes, engine.guessing.planned
    for one, events in zip(plain, events_together(engine, requests), strict=True):
        yield one, spoken(events)
    assert engine.guessing.planned > before


def asked(seed: int, **sampling: Any) -> ChatRequest:
    dice = random.Random(seed)
    prompt = tuple(dice.randrange(1, VOCABULARY) for _ in range(dice.randrange(1, 60)))
    return ChatRequest(prompt=prompt, max_tokens=40, logprobs=2, sampling=Sampling(seed=seed, **sampling))


@pytest.mark.parametrize("mistakes", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_greedy_answers_are_the_same(make: Make, architecture: str, mistakes: float) -> None:
    parted = 0
    for seed in range(12):
        engine = make(architecture)
        for plain, drafted in answers(
            engine, [asked(seed, temperature=0.0), asked(seed + 50, temperature=0.0)], mistakes
        ):
            if (at := part(plain, drafted)) is not None:
                first, second = at.top
                assert first.logprob - second.logprob < DOUBT
                parted += 1
    assert parted <= 2


def test_sampled_answers_of_a_seed_are_the_same(make: Make) -> None:
    """A wrong number of random numbers, or penalties of the wrong tokens, would part every one of them."""
    parted = 0
    for seed in range(20):
        request = asked(seed, temperature=0.9, repeat_penalty=1.3, presence_penalty=0.4, logit_bias=((7, 2.0),))
        ((plain, drafted),) = answers(make(), [request], 0.2)
        parted += [one.token.data for one in plain] != [one.token.data for one in drafted]
    assert parted <= 2


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_a_conversation_goes_on_from_what_drafts_left(make: Make, architecture: str) -> None:
    engine = make(architecture)
    for seed in range(6):
        request = asked(seed, temperature=0.0)
        ((_, drafted),) = answers(engine, [request], 0.3)
        assert isinstance(request.prompt, tuple)
        longer = ChatRequest(
            prompt=(*request.prompt, *numbers(drafted), 9),
            max_tokens=6,
            logprobs=2,
            sampling=Sampling(temperature=0.0),
        )
        events = events_together(engine, [longer])[0]
        end = events[-1]
        assert isinstance(end, FinishEvent)
        assert end.cached_tokens >= len(longer.prompt or ()) - 2
        (fresh,) = events_together(make(architecture, speculation="off"), [longer])
        assert (at := part(spoken(events), spoken(fresh))) is None or at.top[0].logprob - at.top[1].logprob < DOUBT


def test_a_recurrent_model_makes_no_drafts(make: Make) -> None:
    assert make("mamba").guessing.longest == 0


def test_without_speculation_there_are_no_drafts_and_no_room_for_them(make: Make) -> None:
    engine = make(speculation="off")
    assert engine.guessing.longest == 0
    assert engine._batch is not None
    assert engine._batch.context.outputs == engine.slots + engine.beside


ANIMAL = {
    "type": "object",
    "properties": {
        "description": {"type": "string", "maxLength": 30},
        "number_of_legs": {"type": "integer"},
        "conservation_status": {"enum": ["endangered", "extinct", "vulnerable"]},
    },
    "required": ["description", "number_of_legs", "conservation_status"],
    "additionalProperties": False,
}
LIST = "1. apples 2. bread 3. olive oil 4. four lemons 5. a bunch of parsley 6. salt 7. two cucumbers"
SHAPED = ChatRequest(prompt="The animal as JSON: ", json_schema=json.dumps(ANIMAL), max_tokens=80)
ONLY = '{"number of legs and wings of the animal": 12, "conservation status": "vulnerable"}'
CONSTANT = ChatRequest(prompt=f"{ONLY}\n{ONLY}\n", json_schema=json.dumps({"const": json.loads(ONLY)}), max_tokens=80)
COPYING = ChatRequest(prompt=f"The list: {LIST}\nThe list once more: 1. apples 2. bread", max_tokens=24)


class PayingChat(LlamaChat):
    """On a machine where a call of many tokens takes as long as a call of one."""

    def _make_drafts(self, context: Context, model: DraftModel | None = None) -> Drafts:
        return Drafts(super()._make_drafts(context).longest, slope(1.0), model)


@pytest.fixture(scope="module")
def starter(pulled: Callable[[str], Mapping[str, Path]]) -> Iterator[Callable[[str], LlamaChat]]:
    made: dict[str, LlamaChat] = {}

    def build(speculation: str) -> LlamaChat:
        if speculation not in made:
            files = {"model": pulled("smollm2-135m-instruct")["model"]}
            options = {"context": 512, "speculation": speculation, "prefix_cache_mb": 0, "temperature": 0.0}
            made[speculation] = PayingChat(ModelSpec("llm", "smollm2", "x", files, threads=2, options=options))
            made[speculation].open()
            made[speculation].heat()
        return made[speculation]

    yield build
    for engine in made.values():
        engine.close()


def test_a_real_model_keeps_what_it_guessed(starter: Callable[[str], LlamaChat]) -> None:
    (plain,), (drafted,) = (events_together(starter(one), [COPYING]) for one in ("off", "auto"))
    assert text_of(drafted) == text_of(plain)
    assert drafted[-1] == plain[-1]
    kept = sum(slot.accepted for slot in starter("auto").slot_states())
    assert 5 <= kept <= sum(slot.drafted for slot in starter("auto").slot_states())


def calls(engine: LlamaChat, request: ChatRequest) -> tuple[str, int]:
    """The text of an answer, and the calls of llama.cpp for it."""
    assert engine._batch is not None
    before = engine._batch._calls
    (events,) = events_together(engine, [request])
    return text_of(events), engine._batch._calls - before


def test_what_a_schema_forces_takes_no_calls_of_its_own(starter: Callable[[str], LlamaChat]) -> None:
    (plain, many), (forced, few) = (calls(starter(one), CONSTANT) for one in ("off", "auto"))
    assert forced == plain
    assert json.loads(forced) == json.loads(ONLY)
    assert few < 0.6 * many


def test_a_forced_answer_is_an_instance_of_its_schema(starter: Callable[[str], LlamaChat]) -> None:
    (_, many), (text, few) = (calls(starter(one), SHAPED) for one in ("off", "auto"))
    found = json.loads(text)
    assert list(found) == ANIMAL["required"]
    assert found["conservation_status"] in ("endangered", "extinct", "vulnerable")
    assert few < many


def test_forced_text_counts_towards_the_most_tokens_and_ends_at_a_stop_string(
    starter: Callable[[str], LlamaChat],
) -> None:
    whole = text_of(events_together(starter("auto"), [CONSTANT])[0])
    for most in range(1, 12):
        (events,) = events_together(starter("auto"), [dataclasses.replace(CONSTANT, max_tokens=most)])
        end = events[-1]
        assert isinstance(end, FinishEvent)
        assert (end.completion_tokens, end.reason) == (most, "length")
        assert whole.startswith(text_of(events))
    (events,) = events_together(starter("auto"), [dataclasses.replace(CONSTANT, stop=("s and w",))])
    assert text_of(events) == whole.partition("s and w")[0]


def test_log_probabilities_are_of_all_tokens(starter: Callable[[str], LlamaChat]) -> None:
    (events,) = events_together(starter("auto"), [dataclasses.replace(CONSTANT, logprobs=1)])
    assert b"".join(one.token.data for one in spoken(events)).decode() == text_of(events)
