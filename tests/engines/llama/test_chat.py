"""Chat on a real small model: the contract, and what users rely on."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.contract import ChatContract, ask
from support.hot import hot

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engine_abilities import Contextual
from edgeserve.engines.llama import prepare
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.model import MappedModel
from edgeserve.errors import ContextOverflow, EngineFailure, InvalidRequest
from edgeserve.messages import ChatRequest, FinishEvent, ImagePart, Message, PromptEvent, Sampling, TextPart, TokenEvent
from edgeserve.system import pages

Pulled = Callable[[str], Mapping[str, Path]]

pytestmark = pytest.mark.models
GREEDY = Sampling(temperature=0.0)
SYSTEM = "You are a helpful AI assistant."


def spec_of(files: Mapping[str, Path], **options: object) -> ModelSpec:
    return ModelSpec(
        "llm",
        "smollm2",
        "edgeserve.engines.llama.chat:LlamaChat",
        {"model": files["model"]},
        threads=2,
        options={"system": SYSTEM, **options},
    )


@pytest.fixture(scope="module")
def engine(pulled: Pulled) -> Iterator[LlamaChat]:
    with hot(LlamaChat(spec_of(pulled("smollm2-135m-instruct")))) as engine:
        yield engine


def opened(engine: LlamaChat) -> MappedModel:
    assert engine._model is not None
    return engine._model


def chat(engine: LlamaChat, request: ChatRequest) -> tuple[str, FinishEvent]:
    *tokens, finish = engine.chat(request, threading.Event())
    assert isinstance(finish, FinishEvent)
    return "".join(token.text for token in tokens if isinstance(token, TokenEvent)), finish


class TestLlamaChat(ChatContract):
    make = LlamaChat

    @pytest.fixture
    def spec(self, pulled: Pulled) -> ModelSpec:
        return spec_of(pulled("smollm2-135m-instruct"), context=512)


def test_the_capital_of_france(engine: LlamaChat) -> None:
    text, finish = chat(engine, ask("What is the capital of France?", sampling=GREEDY, max_tokens=64))
    assert "Paris" in text
    assert finish.reason == "stop"


def test_a_stop_string_across_tokens_ends_the_answer_and_is_not_in_it(engine: LlamaChat) -> None:
    whole, _ = chat(engine, ask("What is the capital of France?", sampling=GREEDY, max_tokens=64))
    stop = whole[len(whole) // 2 - 2 : len(whole) // 2 + 3]
    text, finish = chat(engine, ask("What is the capital of France?", sampling=GREEDY, max_tokens=64, stop=(stop,)))
    assert text == whole[: whole.index(stop)]
    assert (finish.reason, finish.stop) == ("stop", stop)


def test_characters_of_several_tokens_come_whole(engine: LlamaChat) -> None:
    text = "🙂 naïve 東京 ü"
    model = opened(engine)
    pieces = [model.piece(token) for token in model.tokenize(text, add_special=False)]
    assert len(pieces) > len(text.split())
    assert b"".join(pieces).decode() == text
    assert any(not _whole(piece) for piece in pieces)


def _whole(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_the_same_seed_says_the_same_and_another_differs(engine: LlamaChat) -> None:
    def answer(seed: int) -> str:
        sampling = Sampling(temperature=1.5, seed=seed, top_k=0, top_p=1.0, min_p=0.0)
        return chat(engine, ask("Tell me a story.", sampling=sampling, max_tokens=24))[0]

    assert answer(1) == answer(1)
    assert answer(1) != answer(2)


def test_max_tokens_is_kept_and_told(engine: LlamaChat) -> None:
    _, finish = chat(engine, ask("Tell me a long story.", max_tokens=5))
    assert (finish.reason, finish.completion_tokens) == ("length", 5)


def test_the_hard_cap_holds(pulled: Pulled) -> None:
    engine = LlamaChat(spec_of(pulled("smollm2-135m-instruct"), context=256, max_new_tokens=7))
    engine.open()
    engine.heat()
    _, finish = chat(engine, ask("Tell me a long story.", max_tokens=1000, sampling=GREEDY))
    assert (finish.reason, finish.completion_tokens) == ("length", 7)
    engine.close()


def test_a_full_context_ends_the_answer(pulled: Pulled) -> None:
    engine = LlamaChat(spec_of(pulled("smollm2-135m-instruct"), context=64))
    engine.open()
    engine.heat()
    assert engine._batch is not None
    (end,) = opened(engine).tokenize("<|im_end|>", add_special=False)
    endless = Sampling(temperature=0.0, logit_bias=((end, -100.0),))
    _, finish = chat(engine, ask("word " * 180, sampling=endless))
    size = engine._batch.context.size
    assert finish.reason == "length"
    assert finish.prompt_tokens + finish.completion_tokens == size + 1
    with pytest.raises(ContextOverflow, match=f"the context holds {size}") as caught:
        chat(engine, ask("word " * 2 * size))
    assert caught.value.param == "messages"
    assert caught.value.figures[1] == size - 1
    _counts_beyond(engine, size)
    engine.close()


def _counts_beyond(engine: LlamaChat, size: int) -> None:
    """A prompt beyond the context is counted, and its error tells the exact number, for clients that want it."""
    long = ask("word " * 2 * size, count="only")
    (counted,) = engine.chat(long, threading.Event())
    assert isinstance(counted, PromptEvent)
    assert counted.tokens > 2 * size
    with pytest.raises(ContextOverflow) as caught:
        chat(engine, dataclasses.replace(long, count="first"))
    assert caught.value.figures == (counted.tokens, size - 1)
    with pytest.raises(ContextOverflow, match="more than"):
        chat(engine, ask("word " * 40_000, count="first"))
    blank = ask(" " * (prepare.COUNTED_TEXT + 1), count="only")  # some 16,000 tokens
    with pytest.raises(ContextOverflow) as caught:
        engine.chat(blank, threading.Event()).send(None)
    assert caught.value.figures == (size - 1, size - 1), "no token beyond the context was counted"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_json_object_is_json(engine: LlamaChat, seed: int) -> None:
    request = ask("Describe Paris as JSON.", json_object=True, max_tokens=40, sampling=Sampling(seed=seed))
    text, finish = chat(engine, request)
    if finish.reason == "stop":
        assert isinstance(json.loads(text), dict)
    else:
        assert text.startswith("{")


def test_json_object_ends(engine: LlamaChat) -> None:
    request = ask('Say {"city": "Paris"}', json_object=True, max_tokens=300, sampling=GREEDY)
    text, finish = chat(engine, request)
    assert finish.reason == "stop"
    assert isinstance(json.loads(text), dict)


def test_logit_bias_forbids_and_forces(engine: LlamaChat) -> None:
    (token,) = opened(engine).tokenize(" Paris", add_special=False)
    question = "What is the capital of France?"
    banned = Sampling(temperature=0.0, logit_bias=((token, -100.0),))
    assert " Paris" not in chat(engine, ask(question, sampling=banned, max_tokens=24))[0]
    forced = Sampling(temperature=0.0, logit_bias=((token, 100.0),))
    assert chat(engine, ask(question, sampling=forced, max_tokens=3))[0] == " Paris Paris Paris"


def test_a_bias_outside_the_vocabulary_is_refused(engine: LlamaChat) -> None:
    with pytest.raises(InvalidRequest, match="vocabulary of 49152"):
        chat(engine, ask("Hi", sampling=Sampling(logit_bias=((10**6, 1.0),))))


def test_a_shared_prefix_is_not_decoded_again(engine: LlamaChat) -> None:
    question = ask("What is the capital of France?", sampling=GREEDY, max_tokens=16)
    fresh, _ = chat(engine, question)
    again, finish = chat(engine, question)
    assert again == fresh
    assert finish.cached_tokens == finish.prompt_tokens - 1
    other, finish = chat(engine, ask("What is the capital of Italy?", sampling=GREEDY, max_tokens=16))
    assert 0 < finish.cached_tokens < finish.prompt_tokens - 1
    assert "Rome" in other


def test_cancel_ends_within_one_token(engine: LlamaChat) -> None:
    cancel = threading.Event()
    events = engine.chat(ask("Tell me a long story.", max_tokens=100), cancel)
    next(events)
    cancel.set()
    assert list(events) == []


def test_a_system_message_reaches_the_template(engine: LlamaChat) -> None:
    messages = (Message("system", (TextPart("You are a pirate."),)), Message("user", (TextPart("Hi"),)))
    prompt = engine.prompt(opened(engine), ChatRequest(messages))
    assert "pirate" in prompt
    assert prompt.rstrip().endswith("<|im_start|>assistant")


def test_images_are_for_vision(engine: LlamaChat) -> None:
    request = ChatRequest((Message("user", (ImagePart(b"png"),)),))
    with pytest.raises(InvalidRequest, match="use a vision model"):
        chat(engine, request)


def test_warm_means_no_weight_is_resident(pulled: Pulled, tmp_path: Path) -> None:
    # A copy, so that the other engine's mapping does not count.
    path = tmp_path / "model.gguf"
    path.write_bytes(pulled("smollm2-135m-instruct")["model"].read_bytes())
    engine = LlamaChat(spec_of({"model": path}, context=256))
    engine.open()
    assert engine.rung is Rung.WARM
    assert pages.resident_mapped(path) == 0
    engine.heat()
    assert pages.resident_mapped(path) > 0.9 * path.stat().st_size
    engine.park()
    assert pages.resident_mapped(path) == 0
    engine.close()
    assert not list(pages.mappings(path))


def test_the_context_is_told_as_long_as_there_is_one(pulled: Pulled) -> None:
    engine = LlamaChat(spec_of(pulled("smollm2-135m-instruct"), context=512))
    assert isinstance(engine, Contextual)
    assert engine.context_tokens is None
    engine.open()
    assert engine.context_tokens is None
    engine.heat()
    assert engine.context_tokens == 512
    engine.park()
    assert engine.context_tokens is None
    engine.close()


def test_two_engines_share_one_mapping(pulled: Pulled, engine: LlamaChat) -> None:
    other = LlamaChat(spec_of(pulled("smollm2-135m-instruct"), context=128))
    other.open()
    assert opened(other) is opened(engine)
    other.heat()
    other.park()
    assert pages.resident_mapped(pulled("smollm2-135m-instruct")["model"]) > 0
    other.close()
    assert "Paris" in chat(engine, ask("What is the capital of France?", sampling=GREEDY, max_tokens=24))[0]


FRESH = """
import sys, threading
from pathlib import Path
from edgeserve.engine import ModelSpec
from edgeserve.messages import ChatRequest
from edgeserve.system import pages
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.runtime import llama

llama()
path = Path(sys.argv[1])
engine = LlamaChat(ModelSpec("llm", "m", "x", {"model": path}, threads=2))
estimate, before = engine.estimate().total, pages.private_bytes()
engine.open()
engine.heat()
list(engine.chat(ChatRequest(prompt="word " * 50, max_tokens=2), threading.Event()))
print(estimate, pages.resident_mapped(path) + pages.private_bytes() - before)
"""


def test_the_estimate_is_within_15_percent(pulled: Pulled) -> None:
    """In a fresh process: in this one, the heap has room from earlier tests."""
    path = pulled("smollm2-135m-instruct")["model"]
    told = subprocess.run([sys.executable, "-c", FRESH, str(path)], capture_output=True, text=True, check=True)
    estimate, measured = map(int, told.stdout.split())
    assert estimate == pytest.approx(measured, rel=0.15)


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    engine = LlamaChat(spec_of({"model": path}))
    with pytest.raises(EngineFailure, match=r"broken\.gguf"):
        engine.open()
    with pytest.raises(EngineFailure, match=r"broken\.gguf"):
        engine.estimate()
