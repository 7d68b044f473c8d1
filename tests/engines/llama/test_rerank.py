"""Ranking models in llama.cpp: numbers equal to the same weights in NumPy, many documents in one call."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as some
from support import tiny_bert, tiny_qwen
from support.contract import RerankContract
from support.examples import examples
from support.tiny_bert import CONTEXT, HEAD, write_bert
from support.tiny_qwen import write_qwen

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines import whole_texts
from edgeserve.engines.llama import rerank
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.rerank import LlamaRerank, together
from edgeserve.errors import ConfigError, ContextOverflow, EngineFailure, InvalidRequest
from edgeserve.messages import RerankEvent, RerankRequest
from edgeserve.system import pages

QUERY, DOCUMENTS = "cat sofa", ("the dog runs fast", "rain", "the cat sleeps on the sofa", "", "cat train " * 60)
CLOSE = 5e-3
"""llama.cpp looks GELU up in a table of half floats, and flash attention reads keys and values as half floats."""


def spec(path: Path, **options: object) -> ModelSpec:
    return ModelSpec("rerank", "tiny", "edgeserve.engines.llama.rerank:LlamaRerank", {"model": path}, options=options)


def hot(path: Path, **options: object) -> LlamaRerank:
    return hot_of(LlamaRerank(spec(path, **options)))


def hot_of(engine: LlamaRerank) -> LlamaRerank:
    engine.open()
    engine.heat()
    return engine


def ask(engine: LlamaRerank, query: str = QUERY, documents: Sequence[str] = DOCUMENTS) -> list[RerankEvent]:
    return list(engine.rerank(RerankRequest(query, tuple(documents)), threading.Event()))


def tokens(engine: LlamaRerank, query: str = QUERY, documents: Sequence[str] = DOCUMENTS) -> list[list[int]]:
    ready = engine.prepare(RerankRequest(query, tuple(documents)))
    assert ready is not None
    return [list(pair.tokens) for pair in ready.pairs]


@pytest.mark.slow
class TestBert(RerankContract):
    make = LlamaRerank

    @pytest.fixture(scope="class")
    @classmethod
    def path(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return write_bert(tmp_path_factory.mktemp("bert") / "m.gguf", gguf.PoolingType.RANK, head=tuple(HEAD))

    @pytest.fixture
    def spec(self, path: Path) -> ModelSpec:
        return spec(path)

    @pytest.mark.parametrize(
        "head", [tuple(HEAD), ("cls.output.weight",), ("cls.output.weight", "cls.output.bias")], ids=len
    )
    def test_logits_are_those_of_the_same_weights_in_numpy(self, tmp_path: Path, head: tuple[str, ...]) -> None:
        engine = hot(write_bert(tmp_path / "m.gguf", gguf.PoolingType.RANK, head=head))
        known = tiny_bert.weights(1, head)
        for pair, event in zip(tokens(engine), ask(engine), strict=True):
            assert event.logit == pytest.approx(tiny_bert.logit(known, pair), abs=CLOSE)
            assert event.tokens == len(pair)
        engine.close()

    def test_a_file_that_says_nothing_of_pooling_ranks_by_its_head(self, path: Path, tmp_path: Path) -> None:
        engine = hot(path)
        silent = hot(write_bert(tmp_path / "silent.gguf", None, head=tuple(HEAD)))
        assert ask(silent) == ask(engine)
        for one in (silent, engine):
            one.close()

    def test_documents_go_through_in_few_calls(self, hot: LlamaRerank, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[int] = []
        pool = Context.pool

        def counted(self: Context, texts: Sequence[Sequence[int]], width: int) -> list[object]:
            calls.append(sum(map(len, texts)))
            return pool(self, texts, width)

        monkeypatch.setattr(Context, "pool", counted)
        events = ask(hot, documents=["the cat sleeps on the sofa"] * 16)
        assert len({event.logit for event in events}) == 1
        assert calls == [8 * 11, 8 * 11]  # 96 positions, and as many tokens in a call
        assert all(count <= CONTEXT for count in calls)

    @pytest.mark.slow
    def test_many_documents_take_no_more_memory_than_a_few(self, hot: LlamaRerank) -> None:
        ask(hot, documents=["cat " * 90] * 4)
        before = pages.private_bytes()
        ask(hot, documents=["cat " * 90] * 500)
        assert pages.private_bytes() - before < 2 << 20

    def test_tokens_of_all_documents_are_bounded(self, hot: LlamaRerank, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(whole_texts, "MOST_TOKENS", 28)
        with pytest.raises(InvalidRequest, match="the first 3 documents have 29 tokens with the query") as caught:
            ask(hot, documents=["rain", "cat dog", "the cat sleeps on the sofa fast train cat cat cat", "never read"])
        assert caught.value.param == "documents"

    def test_a_context_made_smaller_meanwhile_is_heeded(self, path: Path) -> None:
        engine = hot(path)
        request = RerankRequest(QUERY, DOCUMENTS)
        ready = engine.prepare(request)
        engine.options = type(engine.options)(context=64, pooled=True, ranked=True)
        events = [event for event in engine.run(request, threading.Event(), ready) if event]
        assert [event.tokens for event in events][-1] == 64
        engine.close()


@pytest.mark.slow
class TestQwen(RerankContract):
    make = LlamaRerank
    three = "sof"
    close = CLOSE

    @pytest.fixture(scope="class")
    @classmethod
    def path(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return write_qwen(tmp_path_factory.mktemp("qwen") / "m.gguf")

    @pytest.fixture
    def spec(self, path: Path) -> ModelSpec:
        return spec(path)

    def test_logits_are_those_of_the_same_weights_in_numpy(self, hot: LlamaRerank) -> None:
        known = tiny_qwen.weights()
        for pair, event in zip(tokens(hot), ask(hot), strict=True):
            assert event.logit == pytest.approx(tiny_qwen.logit(known, pair), abs=CLOSE)

    def test_a_query_that_leaves_a_long_document_little_room_is_refused(self, hot: LlamaRerank) -> None:
        query = "x" * (tiny_qwen.CONTEXT - 100)
        assert len(ask(hot, query, ["short"])) == 1
        with pytest.raises(ContextOverflow, match="shorten the query") as caught:
            ask(hot, query, ["short", "long " * 100])
        assert caught.value.param == "query"


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda path: write_bert(path, None, head=tuple(HEAD), labels=("a", "b"), more=TWO), "its head has 2 classes"),
        (lambda path: write_qwen(path, labels=()), "its head has 1 classes"),
        (lambda path: write_qwen(path, labels=("a", "b", "c")), "its head has 3 classes"),
    ],
)
def test_models_that_do_not_rank_are_refused(tmp_path: Path, write: object, told: str) -> None:
    engine = LlamaRerank(spec(write(tmp_path / "m.gguf")))  # type: ignore[operator]
    with pytest.raises(EngineFailure, match=told):
        hot_of(engine)
    assert engine.rung <= Rung.WARM
    engine.close()


@pytest.mark.parametrize("head", [(), ("cls.weight", "cls.bias")], ids=len)
def test_a_model_without_a_head_is_a_mistake_of_the_settings(tmp_path: Path, head: tuple[str, ...]) -> None:
    path = write_bert(tmp_path / "m.gguf", gguf.PoolingType.RANK, head=head)
    with pytest.raises(ConfigError, match=r"m\.gguf: this model has no ranking head; take one") as caught:
        LlamaRerank(spec(path))
    assert caught.value.param == "model"


def test_a_file_that_loses_its_head_is_not_opened(tmp_path: Path) -> None:
    engine = LlamaRerank(spec(write_bert(tmp_path / "m.gguf", gguf.PoolingType.RANK, head=tuple(HEAD))))
    write_bert(tmp_path / "m.gguf", gguf.PoolingType.RANK)
    with pytest.raises(EngineFailure, match="has no ranking head"):
        engine.open()
    assert engine.rung is Rung.COLD


def test_a_missing_file_is_told_when_it_is_opened(tmp_path: Path) -> None:
    engine = LlamaRerank(spec(tmp_path / "none.gguf"))
    with pytest.raises(EngineFailure, match="no such file"):
        engine.open()


SHAPES = {"cls.output.weight": (2, tiny_bert.WIDTH), "cls.output.bias": (2,)}
TWO = {name: tiny_bert._values(name, shape, tiny_bert.np.random.default_rng(1)) for name, shape in SHAPES.items()}
"""A head of two classes."""


def test_a_damaged_head_is_an_error_of_the_engine(tmp_path: Path) -> None:
    wrong = {"cls.output.weight": tiny_bert.weights(1, tuple(HEAD))["cls.output.weight"] * math.nan}
    engine = hot(write_bert(tmp_path / "m.gguf", None, head=("cls.weight", "cls.bias"), more=wrong))
    with pytest.raises(EngineFailure, match="the relevance nan; its file may be damaged"):
        ask(engine)
    engine.close()


@examples(100)
@given(some.lists(some.integers(1, 900), max_size=60), some.integers(1, 9), some.integers(1, 600))
def test_calls_hold_all_pairs_in_order_within_their_limits(lengths: list[int], most: int, most_tokens: int) -> None:
    pairs = [SimpleNamespace(tokens=[0] * length) for length in lengths]
    calls = list(together(pairs, most, most_tokens))  # type: ignore[arg-type]
    assert [pair for call in calls for pair in call] == pairs
    assert all(0 < len(call) <= most for call in calls)
    assert all(len(call) == 1 or sum(len(pair.tokens) for pair in call) <= most_tokens for call in calls)


@pytest.mark.parametrize(("row", "logit"), [([0.5, 0.5], 0.0), ([1.0, 0.0], -math.log(rerank.SMALLEST)), ([2.5], 2.5)])
def test_probabilities_become_a_logit(row: list[float], logit: float) -> None:
    assert rerank._logit(row, "m") == pytest.approx(logit)
