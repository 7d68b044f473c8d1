"""A model made for vectors, in llama.cpp: pooled as its file says, whole texts at a time, in bounded memory."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest
from support.contract import ask
from support.hot import hot
from support.tiny_bert import CONTEXT, WIDTH, rows, weights, write_bert

from edgeserve.engine import Footprint, ModelSpec, Rung
from edgeserve.engines.llama.embedding import LlamaEmbedding
from edgeserve.errors import ContextOverflow, EngineFailure, InvalidRequest, NotSupported
from edgeserve.messages import EmbedRequest
from edgeserve.system import pages

TEXTS = ("the cat sleeps on the sofa", "a dog runs fast", "rain")


def made(path: Path, **options: object) -> LlamaEmbedding:
    spec = ModelSpec(
        "embedding", "tiny", "edgeserve.engines.llama.embedding:LlamaEmbedding", {"model": path}, options=options
    )
    return LlamaEmbedding(spec)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaEmbedding]:
    with hot(made(write_bert(tmp_path_factory.mktemp("bert") / "cls.gguf", gguf.PoolingType.CLS))) as engine:
        yield engine


def embed(engine: LlamaEmbedding, *inputs: str | tuple[int, ...]) -> list[Sequence[float]]:
    events = engine.embed(EmbedRequest(inputs), threading.Event())
    return [struct.unpack(f"<{len(event.vector) // 4}f", event.vector) for event in events]


def test_vectors_are_of_length_one_and_of_their_text_alone(engine: LlamaEmbedding) -> None:
    together = embed(engine, *TEXTS, TEXTS[0])
    assert together[0] == together[3]
    for text, vector in zip(TEXTS, together, strict=False):
        assert len(vector) == WIDTH
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
        assert embed(engine, text) == [vector]
    assert abs(np.dot(together[0], together[1])) < 0.999


def test_tokens_are_taken_as_they_are(engine: LlamaEmbedding) -> None:
    assert engine._model is not None
    tokens = tuple(engine._model.tokenize(TEXTS[0], add_special=True))
    assert tokens[0] == 2  # [CLS] …
    assert tokens[-1] == 3  # … [SEP]
    (event,) = engine.embed(EmbedRequest((tokens,)), threading.Event())
    assert event.tokens == len(tokens) == 8
    assert embed(engine, tokens) == embed(engine, TEXTS[0])
    assert embed(engine, tokens[1:-1]) != embed(engine, TEXTS[0])


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_the_settings_choose_the_pooling(tmp_path: Path, pooling: str) -> None:
    other = made(write_bert(tmp_path / "m.gguf", gguf.PoolingType.CLS), pooling=pooling)
    other.open()
    other.heat()
    (vector,) = embed(other, TEXTS[0])
    found = rows(weights(), [2, 4, 5, 7, 9, 4, 10, 3])
    row = {"mean": found.mean(axis=0), "cls": found[0], "last": found[-1]}[pooling]
    assert vector == pytest.approx(row / np.linalg.norm(row), abs=2e-3)
    other.close()


@pytest.mark.slow
def test_each_file_is_pooled_as_it_says(engine: LlamaEmbedding, tmp_path: Path) -> None:
    """All have the same weights; a file that says nothing gets the mean."""
    vectors = {}
    for pooling in (gguf.PoolingType.MEAN, gguf.PoolingType.CLS, gguf.PoolingType.LAST, gguf.PoolingType.NONE, None):
        other = made(write_bert(tmp_path / f"{pooling}.gguf", pooling))
        other.open()
        other.heat()
        (vectors[pooling],) = embed(other, TEXTS[0])
        other.close()
    assert vectors[gguf.PoolingType.CLS] == pytest.approx(embed(engine, TEXTS[0])[0], abs=1e-5)
    assert vectors[gguf.PoolingType.NONE] == vectors[None] == vectors[gguf.PoolingType.MEAN]
    assert len(set(vectors.values())) == 3


def test_the_last_word_counts_in_the_first(engine: LlamaEmbedding) -> None:
    """No token is hidden from another, and the longest text goes through at once."""
    words = ["cat"] * (CONTEXT - 2)
    whole, changed = embed(engine, " ".join(words), " ".join([*words[:-1], "train"]))
    assert whole != changed
    assert np.dot(whole, changed) < 0.999999


def test_a_longer_text_is_cut_between_its_first_and_last_token(engine: LlamaEmbedding) -> None:
    long, tokens = "cat " * 5000, (4,) * 5000
    text, given = engine.embed(EmbedRequest((long, tokens), cut=True), threading.Event())
    assert text.tokens == given.tokens == CONTEXT
    (whole,) = embed(engine, " ".join(["cat"] * (CONTEXT - 2)))
    assert np.frombuffer(text.vector, "<f4") == pytest.approx(np.array(whole), abs=1e-5)


def test_longer_texts_than_the_model_knows(engine: LlamaEmbedding) -> None:
    with pytest.raises(ContextOverflow, match=rf"input 1 is {CONTEXT + 1} tokens long; the context holds {CONTEXT}"):
        embed(engine, "cat", "cat " * (CONTEXT - 1))
    with pytest.raises(InvalidRequest, match="token 9999 is not in the vocabulary"):
        embed(engine, (9999,))
    with pytest.raises(InvalidRequest, match="input 0 holds no token"):
        embed(engine, ())
    with pytest.raises(NotSupported, match="makes vectors of texts"):
        list(engine.chat(ask("Hi"), threading.Event()))


@pytest.mark.slow
def test_many_inputs_take_no_more_memory_than_one(engine: LlamaEmbedding) -> None:
    longest = "cat " * (CONTEXT - 2)
    embed(engine, longest)
    before = pages.private_bytes()
    embed(engine, *[longest] * 300)
    assert pages.private_bytes() - before < 2 << 20


def test_the_ladder(engine: LlamaEmbedding, tmp_path: Path) -> None:
    other = made(write_bert(tmp_path / "mean.gguf", gguf.PoolingType.MEAN))
    estimate = other.estimate()
    assert isinstance(estimate, Footprint)
    assert estimate.private > 0
    other.open()
    assert other.rung is Rung.WARM
    with pytest.raises(EngineFailure, match="is warm, not hot"):
        embed(other, "cat")
    other.heat()
    first = embed(other, "cat")
    other.park()
    other.heat()
    assert embed(other, "cat") == first
    other.close()
    assert other.rung is Rung.COLD


def test_a_ranking_model_is_told_apart(tmp_path: Path) -> None:
    other = made(write_bert(tmp_path / "rank.gguf", gguf.PoolingType.RANK))
    other.open()
    with pytest.raises(EngineFailure, match="ranks texts"):
        other.heat()
    assert other.rung is Rung.WARM
    other.close()
