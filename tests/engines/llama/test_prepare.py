"""Requests made ready beside the loop: what cannot be answered is refused before it costs anybody anything."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.contract import ask
from support.examples import examples
from support.hot import hot_engines
from support.tiny_gguf import VOCABULARY, write_model

from edgeserve.engine import ModelSpec
from edgeserve.engines import whole_texts
from edgeserve.engines.llama import model
from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import Item
from edgeserve.engines.llama.prepare import EARLY_FACTOR, Prepared, prepare_chat
from edgeserve.engines.llama.template import ChatTemplate
from edgeserve.errors import ContextOverflow, ContextReduced, DoesNotFit, EdgeserveError, EngineFailure, InvalidRequest
from edgeserve.messages import (
    ChatRequest,
    EmbedRequest,
    FinishEvent,
    ImagePart,
    Message,
    PromptEvent,
    Sampling,
    TextPart,
    Tool,
    ToolCall,
)

pytestmark = pytest.mark.models
GREEDY = Sampling(temperature=0.0)
MAKE = Callable[..., LlamaChat]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MAKE]:
    """Engines of random weights, hot."""

    def build(architecture: str = "llama", **options: object) -> LlamaChat:
        files = {"model": write_model(tmp_path / f"{architecture}.gguf", architecture)}
        options = {"context": 512, "parallel": 3, **options}
        return LlamaChat(
            ModelSpec("llm", "tiny", "edgeserve.engines.llama.chat:LlamaChat", files, threads=1, options=options)
        )

    with hot_engines(build) as make:
        yield make


def batch_of(engine: LlamaChat) -> Batch:
    assert engine._batch is not None
    return engine._batch


def free_slots(engine: LlamaChat) -> int:
    return sum(not slot.busy for slot in batch_of(engine).numbers.slots)


def run(engine: LlamaChat, request: ChatRequest | EmbedRequest, *, prepared: bool) -> list[object]:
    """The events of an answer, with a request made ready before or on the spot."""
    events: list[object] = []
    for event in engine.run(request, threading.Event(), engine.prepare(request) if prepared else None):
        if event is None:
            engine.step()
        else:
            events.append(event)
    return events


def answered(engine: LlamaChat, request: ChatRequest) -> bool:
    return any(isinstance(one, FinishEvent) for one in engine.chat(request, threading.Event()))


PLAIN = ChatRequest(prompt=(5, 6, 7), max_tokens=3, sampling=GREEDY)
BAD: list[ChatRequest | EmbedRequest] = [
    ChatRequest(prompt=()),
    ChatRequest(prompt=""),
    ChatRequest(prompt=(VOCABULARY,)),
    ChatRequest(prompt=(-1,)),
    ChatRequest(prompt=(2**31 - 1,)),
    ChatRequest(prompt=(1,) * 512),
    ChatRequest(prompt="word1, " * 100_000),
    ChatRequest(prompt="\ud800"),
    ChatRequest(prompt=(5,), sampling=Sampling(logit_bias=((VOCABULARY, 1.0),))),
    ChatRequest(prompt=(5,), sampling=Sampling(logit_bias=((10**9, 1.0),))),
    ask("word1, " * 100_000),
    ask("\udfff"),
    EmbedRequest(("",)),
    EmbedRequest(((),)),
    EmbedRequest(((1, 2), (VOCABULARY,))),
    EmbedRequest(((1,) * 513,)),
    EmbedRequest(("word1, " * 100_000,)),
    EmbedRequest(("\ud800",)),
]


@pytest.mark.parametrize("prepared", [False, True])
def test_a_bad_request_is_its_own_error_and_the_others_go_on(make: MAKE, prepared: bool) -> None:
    engine = make()
    stream = engine.run(ChatRequest(prompt=(5, 6, 7), max_tokens=400, sampling=GREEDY), threading.Event())
    said = 0
    for request in BAD:
        with pytest.raises(InvalidRequest):
            run(engine, request, prepared=prepared)
        assert free_slots(engine) >= 2
        for _ in range(3):
            said += next(stream) is not None
            engine.step()
    assert said > 5
    stream.close()
    assert free_slots(engine) == 3
    assert answered(engine, PLAIN)


def test_an_answer_that_never_began_takes_nothing(make: MAKE) -> None:
    engine = make()
    for _ in range(9):
        engine.run(PLAIN, threading.Event(), engine.prepare(PLAIN)).close()
        begun = engine.run(PLAIN, threading.Event())
        next(begun)
        begun.close()
    assert free_slots(engine) == 3
    assert answered(engine, PLAIN)


def test_the_progress_of_a_prompt_is_told_by_step(make: MAKE) -> None:
    engine = make(context=2048)
    request = ChatRequest(prompt=(5, 6, 7, 8) * 400, max_tokens=2, sampling=GREEDY, count="each")
    first, *read = [one for one in engine.chat(request, threading.Event()) if isinstance(one, PromptEvent)]
    assert first == PromptEvent(1600)
    computed = [one.computed_tokens for one in read]
    assert len(computed) > 1
    assert computed == sorted(set(computed))
    assert computed[-1] == 1600
    again, *read = [one for one in engine.chat(request, threading.Event()) if isinstance(one, PromptEvent)]
    assert again.cached_tokens > 1500
    assert [one.cached_tokens + one.computed_tokens for one in read] == [1600]


TEMPLATES = ["{{ 1 / 0 }}", "{{ raise_exception('no') }}", "{% for", "{{ 'a' * 10**9 }}", "{{ none.x.y }}"]


@pytest.mark.parametrize("source", TEMPLATES)
def test_a_template_that_raises_ends_its_own_answer(make: MAKE, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setattr(model.MappedModel, "chat_template", lambda self: source)
    engine = make()
    for prepared in (True, False):
        with pytest.raises(InvalidRequest, match="chat template"):
            run(engine, ask("hello"), prepared=prepared)
    assert free_slots(engine) == 3
    assert answered(engine, PLAIN)


def test_what_was_prepared_is_answered_as_what_was_not(make: MAKE) -> None:
    engine = make(prefix_cache_mb=0)
    for request in (PLAIN, EmbedRequest(((1, 2, 3), (4, 5)))):
        told = [run(engine, request, prepared=prepared) for prepared in (True, False)]
        assert len(told[0]) > 1
        assert len(told[0]) == len(told[1])
    ready = engine.prepare(PLAIN)
    assert [len(list(engine.run(PLAIN, _cancelled(), ready))) for _ in range(3)] == [0, 0, 0]


def _cancelled() -> threading.Event:
    cancel = threading.Event()
    cancel.set()
    return cancel


def test_preparing_survives_an_engine_that_is_closed_meanwhile(make: MAKE) -> None:
    engine, errors, done, stop = make(), list[Exception](), list[int](), threading.Event()

    def prepare() -> None:
        while not stop.is_set():
            try:
                engine.prepare(EmbedRequest(((1, 2, 3), (4,) * 100)))
                engine.prepare(EmbedRequest(("word1, " * 100,)))
            except InvalidRequest:  # the tiny vocabulary has no token for letters
                done.append(1)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=prepare) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        engine.close()
        engine.open()
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert done
    engine.close()
    assert engine.prepare(ask("hello")) is None
    with pytest.raises(EngineFailure):
        next(engine.run(ask("hello"), threading.Event()))


def test_an_answer_closed_after_its_engine_touches_nothing_freed(make: MAKE) -> None:
    engine = make()
    running = [engine.run(PLAIN, threading.Event()) for _ in range(3)]
    vectors = engine.run(EmbedRequest(((1, 2, 3),)), threading.Event())
    for one in running[:2]:
        next(one)
    next(vectors)
    engine.close()
    for one in (*running, vectors):
        one.close()
    engine.open()
    engine.heat()
    assert answered(engine, PLAIN)


@pytest.mark.parametrize(("context", "warned"), [(0, False), (2048, False), (2049, True), (100_000, True)])
def test_more_context_than_the_model_was_trained_on_is_warned_of(
    make: MAKE, caplog: pytest.LogCaptureFixture, context: int, warned: bool
) -> None:
    assert batch_of(make(context=context)).context.size == 2048
    told = [one.getMessage() for one in caplog.records if "trained on; it has" in one.msg]
    text = f"tiny: context = {context} is more than the 2048 tokens that the model was trained on; it has 2048"
    assert told == ([text] if warned else [])


def test_a_context_that_shrank_meanwhile_is_looked_at_again(make: MAKE) -> None:
    engine = make(context=0)
    size = batch_of(engine).context.size
    prompt, texts = ChatRequest(prompt=(1,) * (size - 9)), EmbedRequest(((1,) * (size - 9),))
    ready = engine.prepare(prompt), engine.prepare(texts)
    engine.park()
    engine.shed("optional_context", engine.savings()["optional_context"])
    engine.shed("context", engine.savings()["context"])
    engine.heat()
    now = batch_of(engine).context.size
    assert now < size
    with pytest.raises(DoesNotFit, match=f"the context holds {now}.*reduced from {size}"):
        next(engine.run(prompt, threading.Event(), ready[0]))
    with pytest.raises(DoesNotFit, match=f"the context holds {now}.*reduced from {size}"):
        engine.prepare(prompt)
    with pytest.raises(ContextOverflow, match="the context holds 50"):  # which the request asked for
        engine.prepare(dataclasses.replace(prompt, context=50))
    with pytest.raises(ContextReduced, match=f"input 0 is {size - 9} tokens long.*holds {now}.*reduced from {size}"):
        next(engine.run(texts, threading.Event(), ready[1]))
    with pytest.raises(ContextReduced, match=f"the context holds {now}.*reduced from {size}"):
        engine.prepare(texts)
    engine.park()
    assert engine.prepare(prompt) == ready[0]
    for longer in (ChatRequest(prompt=(1,) * size), EmbedRequest(((1,) * (size + 1),))):
        with pytest.raises(ContextOverflow):
            engine.prepare(longer)


@examples(25)
@given(some.lists(some.one_of(some.integers(-2, VOCABULARY + 2), some.integers(-(2**31), 2**31)), max_size=600))
def test_any_tokens_are_answered_or_refused(tokens: list[int]) -> None:
    engine = _shared_engine()
    request = ChatRequest(prompt=tuple(tokens), max_tokens=2, sampling=GREEDY)
    try:
        assert answered(engine, request)
        assert all(0 <= token < VOCABULARY for token in tokens)
    except EdgeserveError:
        assert not tokens or len(tokens) >= 512 or not all(0 <= token < VOCABULARY for token in tokens)
    assert free_slots(engine) == engine.slots


_ENGINES: list[LlamaChat] = []


def _shared_engine() -> LlamaChat:
    assert _ENGINES
    return _ENGINES[0]


@pytest.fixture(autouse=True, scope="module")
def one_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For tests of many examples."""
    files = {"model": write_model(tmp_path_factory.mktemp("tiny") / "llama.gguf", "llama")}
    engine = LlamaChat(ModelSpec("llm", "tiny", "x", files, threads=1, options={"context": 512, "parallel": 2}))
    engine.open()
    engine.heat()
    _ENGINES.append(engine)
    yield
    _ENGINES.clear()
    engine.close()


HUGE = """
import resource, sys, threading
from pathlib import Path
from edgeserve.engine import ModelSpec
from edgeserve.errors import ContextOverflow
from edgeserve.messages import ChatRequest, EmbedRequest, Message, TextPart
from edgeserve.system import pages
from edgeserve.engines.llama.chat import LlamaChat

engine = LlamaChat(ModelSpec("llm", "m", "x", {"model": Path(sys.argv[1])}, threads=1, options={"context": 2048}))
engine.open()
engine.heat()
stream = engine.run(ChatRequest(prompt="Once upon a time", max_tokens=500), threading.Event())
for _ in range(8):
    next(stream)
    engine.step()
words = "The lighthouse keeper wrote down every ship. " * 140_000
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
steps, done = 0, threading.Event()

def refuse():
    try:
        for text in (words, words[:900_000], words[:60_000]):
            for request in (
                ChatRequest(prompt=text),
                ChatRequest((Message("user", (TextPart(text),)),)),
                EmbedRequest((text,)),
            ):
                try:
                    engine.prepare(request)
                except ContextOverflow as error:
                    assert "more than 20" in str(error) and "2048" in str(error), error
    finally:
        done.set()

thread = threading.Thread(target=refuse)
thread.start()
while not done.is_set():
    try:
        next(stream)
    except StopIteration:
        stream = engine.run(ChatRequest(prompt="Once upon a time", max_tokens=500), threading.Event())
    engine.step()
    steps += 1
print(steps, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)
"""


def test_a_huge_prompt_beside_a_stream_takes_little_memory(pulled: Callable[[str], Mapping[str, Path]]) -> None:
    """6 MB, as chat, raw prompt and embedding: the steps that the stream takes meanwhile, and memory in kilobytes."""
    path = pulled("smollm2-135m-instruct")["model"]
    told = subprocess.run([sys.executable, "-c", HUGE, str(path)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-2000:]
    steps, memory = map(int, told.stdout.split())
    assert steps > 1
    assert memory < 80_000


def test_the_inputs_of_one_request_keep_no_other_request_waiting(make: MAKE) -> None:
    engine = make()
    most, one = whole_texts.MOST_TOKENS, (5,) * 400
    assert engine.prepare(EmbedRequest((one,) * (most // 400))) is not None
    with pytest.raises(InvalidRequest, match="the limit is 300000") as refused:
        engine.prepare(EmbedRequest((one,) * (most // 400 + 1)))
    assert refused.value.param == "input"


def test_a_call_that_llama_cpp_would_abort_on_is_refused_before(make: MAKE) -> None:
    engine = make()
    context = batch_of(engine).context
    for items, why in (((), "no token to decode"), (range(context.batch + 1), f"more than {context.batch} tokens")):
        with pytest.raises(EngineFailure, match=why):
            context.decode(Item(5, at, 0, False) for at in items)
    assert answered(engine, PLAIN)
    engine.close()
    with pytest.raises(EngineFailure, match="the context is freed"):
        context.decode([Item(5, 0, 0, True)])


def prepared_by(engine: LlamaChat, request: ChatRequest, render: Callable[[], str], limit: int) -> Prepared:
    """The request made ready for a context of ``limit`` tokens, its template rendered by ``render``."""
    mapped = batch_of(engine).context.model
    return prepare_chat(mapped, lambda: ChatTemplate(None, "", ""), request, lambda _: render(), limit)


def never() -> str:
    raise AssertionError("the template was rendered")


@examples(40)
@given(some.lists(some.integers(0, 9), min_size=5, max_size=5).filter(any))
def test_a_conversation_too_long_for_any_template_is_refused_unrendered(shares: list[int]) -> None:
    """By its characters, wherever they stand: in messages, arguments, or declarations of tools."""
    engine, limit = _shared_engine(), 512
    longest = batch_of(engine).context.model.tokenizer.longest
    whole = EARLY_FACTOR * limit * longest + len(shares)
    first, second, called, told, declared = ("x" * (whole * share // sum(shares)) for share in shares)
    messages = (
        Message("user", (TextPart(first), TextPart(second))),
        Message("assistant", (), tool_calls=(ToolCall("f", called),)),
    )
    request = ChatRequest(messages=messages, tools=(Tool("f", told, declared),))
    with pytest.raises(ContextOverflow):
        prepared_by(engine, request, never, limit)


@pytest.mark.parametrize("unit", ["a", "é", "!", " "])
def test_a_word_that_a_splitter_could_not_bear_is_refused_beside_a_picture(make: MAKE, unit: str) -> None:
    """The multimodal library cuts its text into tokens whole (docs/decisions/0007)."""
    engine = make()
    picture = Message("user", (ImagePart(bytes(3), size=(1, 1)), TextPart("what?")))
    request = ChatRequest(messages=(picture,))
    fits = prepared_by(engine, request, lambda: f"x{unit * 8000}x", 1 << 20)
    assert fits.images == request.images
    with pytest.raises(InvalidRequest, match="beside a picture, a word may have 8,191 characters"):
        prepared_by(engine, request, lambda: f"x{unit * 8192}x", 1 << 20)
