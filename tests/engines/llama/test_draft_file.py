"""Draft models in real engines: the same answers as without, unfit files refused with words, memory in the books."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.hot import hot_engines
from support.spelling import slope
from support.tiny_gguf import VOCABULARY, write_model
from support.together import events_together, text_of

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.llama import draft_file
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.draft_model import DraftModel
from edgeserve.engines.llama.drafts import Drafts
from edgeserve.errors import EngineFailure
from edgeserve.messages import ChatRequest, Sampling
from edgeserve.system import heap, pages
from edgeserve.units import MB

pytestmark = pytest.mark.models
Make = Callable[..., "PayingChat"]


class PayingChat(LlamaChat):
    """On a machine where a call of many tokens takes as long as a call of one, and one of the draft model nothing."""

    def _make_drafts(self, context: Context, model: DraftModel | None = None) -> Drafts:
        if model is not None:
            model.share, model._clock = 0.0, slope(0.0)
        return Drafts(super()._make_drafts(context).longest, slope(1.0), model)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("drafts")
    return {
        "model": write_model(folder / "base.gguf", "llama"),
        "other": write_model(folder / "other.gguf", "llama", seed=2),
        "window": write_model(folder / "window.gguf", "gemma3"),
        "recurrent": write_model(folder / "recurrent.gguf", "mamba"),
        "words": write_model(folder / "words.gguf", "llama", words={17: "word"}),
        "splitter": write_model(folder / "splitter.gguf", "llama", splitter="llama-bpe"),
    }


@pytest.fixture
def make(files: dict[str, Path]) -> Iterator[Make]:
    def build(draft: str = "", model: str = "model", **options: object) -> PayingChat:
        given = {"model": files[model]} | ({"draft": files[draft]} if draft else {})
        options = {"context": 512, "prefix_cache_mb": 0, "flash_attention": "off", **options}
        return PayingChat(ModelSpec("llm", "tiny", "", given, "cpu", 1, options))

    with hot_engines(build) as make:
        yield make


def asked(seed: int, temperature: float) -> ChatRequest:
    prompt = tuple((seed * 31 + 7 * at * at) % (VOCABULARY - 1) + 1 for at in range(40))
    return ChatRequest(prompt=prompt, max_tokens=40, ignore_eos=True, sampling=Sampling(temperature, seed=seed))


def texts(engine: LlamaChat, temperature: float = 0.0) -> list[str]:
    return [text_of(one) for one in events_together(engine, [asked(seed, temperature) for seed in range(4)])]


def kept(engine: LlamaChat) -> tuple[int, int]:
    slots = engine.slot_states()
    return sum(slot.drafted for slot in slots), sum(slot.accepted for slot in slots)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("model", ["model", "window"])
def test_answers_are_the_same_with_a_model_that_drafts_for_itself(make: Make, model: str, temperature: float) -> None:
    """Answers beside each other round alike. One of four may part where two tokens are as good as equal."""
    plain, engine = make(model=model, speculation="off"), make(model, model)
    same = [one == other for one, other in zip(texts(plain, temperature), texts(engine, temperature), strict=True)]
    assert same.count(False) <= 1
    drafted, accepted = kept(engine)
    assert accepted > 20
    if not temperature:  # the guesses from the text, some of which are wrong, cost nothing here
        assert accepted > 0.7 * drafted


def test_answers_are_the_same_with_a_model_that_is_wrong(make: Make) -> None:
    plain, engine = make(speculation="off"), make("other")
    same = [one == other for one, other in zip(texts(plain), texts(engine), strict=True)]
    assert same.count(False) <= 1
    drafted, accepted = kept(engine)
    assert drafted > 0
    assert accepted < 0.5 * drafted


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        ("words", r"words\.gguf cannot draft for base\.gguf: token 17 of their vocabularies differs"),
        ("splitter", r"its tokenizer\.ggml\.pre is 'llama-bpe', not 'default'"),
        ("recurrent", r"recurrent\.gguf cannot draft: its recurrent layers keep each token"),
    ],
)
def test_an_unfit_file_is_refused(make: Make, draft: str, words: str) -> None:
    with pytest.raises(EngineFailure, match=words):
        make(draft)


def test_a_vocabulary_of_another_size_is_refused(files: dict[str, Path], pulled: Any) -> None:
    starter = pulled("smollm2-135m-instruct")["model"]
    with pytest.raises(EngineFailure, match=r"its tokenizer\.ggml\.pre is 'default'|it has 320 tokens"):
        draft_file.check(files["model"], starter)


def test_a_refused_draft_leaves_the_model_warm(make: Make, files: dict[str, Path]) -> None:
    given = {"model": files["model"], "draft": files["recurrent"]}
    engine = PayingChat(ModelSpec("llm", "tiny", "", given, "cpu", 1, {"context": 512}))
    engine.open()
    for _ in range(2):
        with pytest.raises(EngineFailure):
            engine.heat()
        assert engine.rung is Rung.WARM
    engine.close()


def test_without_speculation_no_draft_is_opened(make: Make) -> None:
    engine = make("other", speculation="off")
    assert engine._batch is not None
    assert engine._batch.draft_model is None


def test_a_recurrent_model_opens_no_draft(make: Make) -> None:
    engine = make("recurrent", "recurrent")
    assert engine._batch is not None
    assert engine._batch.draft_model is None


@pytest.fixture
def starter(pulled: Callable[[str], Mapping[str, Path]], tmp_path: Path) -> Iterator[LlamaChat]:
    """The starter model, which drafts for itself from a file of its own."""
    path = pulled("smollm2-135m-instruct")["model"]
    draft = tmp_path / "draft.gguf"
    shutil.copy(path, draft)
    spec = ModelSpec("llm", "smollm2", "", {"model": path, "draft": draft}, "cpu", 2, {"context": 1024})
    engine = LlamaChat(spec)
    yield engine
    engine.close()


def test_the_memory_of_a_draft_is_estimated_and_given_back(starter: LlamaChat) -> None:
    estimate = starter.estimate()
    heap.collect()
    starter.open()
    without = starter.footprint().private
    starter.heat()
    assert starter._batch is not None
    assert starter._batch.draft_model is not None
    starter._batch.draft_model.share = 0.0  # so that it reads the prompt, and touches all its memory
    base = pages.private_bytes_now() - starter.footprint().private
    events_together(starter, [ChatRequest(prompt="word " * 400, max_tokens=30, ignore_eos=True)])
    assert pages.private_bytes_now() - base == pytest.approx(estimate.private, rel=0.15)
    assert starter.savings()["draft"] == 0, "hot: it is there"
    starter.park()
    assert starter.footprint().private == without
    offered = starter.savings()["draft"]
    assert offered > 20 * MB
    starter.shed("draft", offered)
    assert starter.estimate().private == pytest.approx(estimate.private - offered, abs=MB)
    starter.heat()
    assert starter._batch.draft_model is None
    starter.park()
    starter.restore()
    assert starter.savings()["draft"] == offered


def test_the_starter_model_drafts_for_itself(starter: LlamaChat) -> None:
    """A draft as slow as its model does not pay: it is tried a few times at most."""
    starter.open()
    starter.heat()
    request = ChatRequest(prompt="The sea at night", max_tokens=60, ignore_eos=True, sampling=Sampling(0.0))
    (events,) = events_together(starter, [request])
    assert len(text_of(events)) > 100
    assert sum(slot.drafted for slot in starter.slot_states()) <= 30
