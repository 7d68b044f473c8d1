"""Vectors of a real small model: near where texts are alike, and no answer disturbed by them."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from support.hot import hot

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.errors import ContextOverflow, InvalidRequest
from edgeserve.messages import ChatRequest, EmbeddingEvent, EmbedRequest, FinishEvent, Sampling, TokenEvent
from edgeserve.system import heap, pages

pytestmark = pytest.mark.models
CONTEXT = 512
GREEDY = Sampling(temperature=0.0)
PAIRS = (
    ("The cat sleeps on the sofa.", "A kitten is napping on the couch."),
    ("Stock prices fell sharply on Monday.", "Shares dropped steeply at the start of the week."),
    ("How do I bake bread?", "What is the recipe for baking a loaf of bread?"),
    ("The rocket was launched into orbit.", "The spacecraft lifted off into space."),
)


@pytest.fixture(scope="module")
def engine(pulled: Callable[[str], Mapping[str, Path]]) -> Iterator[LlamaChat]:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    options = {"context": CONTEXT, "parallel": 4}
    with hot(
        LlamaChat(
            ModelSpec("llm", "smollm2", "edgeserve.engines.llama.chat:LlamaChat", files, threads=2, options=options)
        )
    ) as engine:
        yield engine


def embed(engine: LlamaChat, *inputs: str | tuple[int, ...]) -> list[Sequence[float]]:
    events = engine.embed(EmbedRequest(inputs), threading.Event())
    return [struct.unpack(f"<{len(event.vector) // 4}f", event.vector) for event in events]


def dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_texts_that_say_the_same_are_nearer_than_others(engine: LlamaChat) -> None:
    left, right = embed(engine, *(one for one, _ in PAIRS)), embed(engine, *(other for _, other in PAIRS))
    for number, one in enumerate(left):
        nearness = [dot(one, other) for other in right]
        assert max(range(len(PAIRS)), key=nearness.__getitem__) == number
    assert len(left[0]) == 576


def test_it_is_the_mean_over_all_tokens_however_they_are_cut(engine: LlamaChat) -> None:
    """Each of the steps sees those before: one token less changes the mean of a long text a little only."""
    text = "The lighthouse keeper wrote down every ship that passed, its flag, its cargo and the weather. " * 2
    assert engine._model is not None
    tokens = tuple(engine._model.tokenize(text, add_special=True))
    whole, by_tokens, shorter, other = embed(engine, text, tokens, tokens[:-1], "Prices rose.")
    assert by_tokens == pytest.approx(whole, abs=1e-3)
    assert dot(whole, shorter) > 0.999 > dot(whole, other)


def test_an_answer_beside_it_is_the_same_and_keeps_its_cache(engine: LlamaChat) -> None:
    prompt = "Seven bridges cross the river, and each of them has a story. " * 5 + "Seven bridges"
    request = ChatRequest(prompt=prompt, max_tokens=12, sampling=GREEDY)
    alone = "".join(one.text for one in engine.chat(request, threading.Event()) if isinstance(one, TokenEvent))
    (quiet,) = embed(engine, PAIRS[0][0] * 3)
    runs = [
        engine.run(request, threading.Event()),
        engine.run(EmbedRequest((PAIRS[0][0] * 3,)), threading.Event()),
    ]
    told: list[list[object]] = [[], []]
    under_way = [0, 1]
    while under_way:
        for number in tuple(under_way):
            try:
                while (event := next(runs[number])) is not None:
                    told[number].append(event)
            except StopIteration:
                under_way.remove(number)
        engine.step()
    assert "".join(one.text for one in told[0] if isinstance(one, TokenEvent)) == alone
    assert told[0][-1].cached_tokens > 40  # type: ignore[attr-defined]
    (event,) = told[1]
    assert isinstance(event, EmbeddingEvent)
    assert struct.unpack(f"<{len(event.vector) // 4}f", event.vector) == pytest.approx(quiet, abs=1e-3)


def test_an_answer_takes_a_slot_between_two_texts(engine: LlamaChat) -> None:
    """Texts took all slots to the end of their requests: an answer waited for 57 s, and could have for an hour."""
    many = EmbedRequest(tuple(f"{number} {PAIRS[0][0]}" for number in range(20)))
    request = ChatRequest(prompt="Seven bridges cross the river.", max_tokens=4, sampling=GREEDY)
    embedding = [engine.run(many, threading.Event()) for _ in range(4)]
    vectors = {id(one): list[EmbeddingEvent]() for one in embedding}
    answer, told = engine.run(request, threading.Event()), list[object]()

    def turn(one: Iterator[object], into: list[object]) -> bool:
        """As the loop of the host lets an answer go on. False at its end."""
        for event in one:
            if event is None:
                return True
            into.append(event)
        return False

    for one in embedding:
        assert turn(one, vectors[id(one)])
    while turn(answer, told):
        for one in embedding:
            assert turn(one, vectors[id(one)]), "the answer ended first"
        engine.step()
    assert sum(isinstance(event, TokenEvent) for event in told)
    other, found = engine.run(EmbedRequest((PAIRS[0][1],)), threading.Event()), list[object]()
    while turn(other, found):
        for one in embedding:
            assert turn(one, vectors[id(one)]), "texts of another request take their turn as well"
        engine.step()
    left = list(embedding)
    while left:
        left = [one for one in left if turn(one, vectors[id(one)])]
        engine.step()
    (alone,) = embed(engine, many.inputs[-1])
    for made in vectors.values():
        assert len(made) == 20
        last = struct.unpack(f"<{len(made[-1].vector) // 4}f", made[-1].vector)
        assert dot(last, alone) > 0.999


def test_it_takes_no_memory_of_its_own(engine: LlamaChat) -> None:
    embed(engine, "word " * 80)
    heap.collect()
    before = pages.private_bytes()
    for _ in range(3):
        embed(engine, "word " * 80)
    heap.collect()
    assert pages.private_bytes() - before < 2 << 20
    assert all(not slot.cells or not slot.opaque for slot in engine._batch.slots)  # type: ignore[union-attr]


def test_what_does_not_fit_is_told_with_both_numbers(engine: LlamaChat) -> None:
    with pytest.raises(ContextOverflow, match=rf"input 1 is 60\d tokens long; the context holds {CONTEXT}") as caught:
        embed(engine, "fine", "word " * 600)
    assert caught.value.param == "input"
    with pytest.raises(InvalidRequest, match="token 49152 is not in the vocabulary"):
        embed(engine, (49_152,))


def test_a_text_waits_for_an_answer_that_has_taken_the_context(engine: LlamaChat) -> None:
    """It was refused: one client's long answers made the texts of all others fail."""
    long = engine.run(ChatRequest(prompt="word " * 480, max_tokens=20, sampling=GREEDY), threading.Event())
    for _ in range(4):
        while next(long) is not None:
            pass
        engine.step()
    text, found = engine.run(EmbedRequest(("word " * 90,)), threading.Event()), list[object]()
    under_way = [text, long]
    while under_way:
        for one in tuple(under_way):
            try:
                while (event := next(one)) is not None:
                    found.append(event)
            except StopIteration:
                under_way.remove(one)
        engine.step()
        waits = long in under_way and text in under_way
        assert not (waits and any(slot.opaque and slot.cells for slot in engine._batch.slots))  # type: ignore[union-attr]
    ends = {type(one): one for one in found if isinstance(one, FinishEvent | EmbeddingEvent)}
    assert len(ends) == 2
    finish = ends[FinishEvent]
    assert isinstance(finish, FinishEvent)
    assert finish.completion_tokens == 20, "what the text had read meanwhile ended the answer early"
    assert embed(engine, "word " * 90)
