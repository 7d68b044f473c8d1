"""Vectors by encoders on ONNX Runtime: equal to the same weights in NumPy, pooled as files and settings say."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.contract import EmbeddingContract
from support.tiny_bert import CONTEXT, WIDTH, rows, weights
from support.tiny_bert_onnx import write_onnx

from edgeserve.engine import ModelSpec
from edgeserve.engines import whole_texts
from edgeserve.engines.encoder.embedding import OnnxEmbedding
from edgeserve.errors import ContextOverflow, EngineFailure, InvalidRequest
from edgeserve.messages import EmbedRequest
from edgeserve.system import pages

ENGINE = "edgeserve.engines.encoder.embedding:OnnxEmbedding"
TEXT, TOKENS = "the cat sleeps on the sofa", [2, 4, 5, 7, 9, 4, 10, 3]


def embed(engine: OnnxEmbedding, *inputs: str | tuple[int, ...]) -> list[Any]:
    events = filter(None, engine.embed(EmbedRequest(inputs), threading.Event()))
    return [np.array(struct.unpack(f"<{WIDTH}f", event.vector)) for event in events]


def unit(vector: Any) -> Any:
    return pytest.approx(vector / np.linalg.norm(vector), abs=1e-6)


class TestOnnxEmbedding(EmbeddingContract):
    make = OnnxEmbedding

    @pytest.fixture(scope="class")
    @classmethod
    def files(cls, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
        return write_onnx(tmp_path_factory.mktemp("embedding"))

    @pytest.fixture
    def spec(self, files: dict[str, Path]) -> ModelSpec:
        return ModelSpec("embedding", "tiny", ENGINE, files)

    def test_texts_and_their_tokens(self, hot: OnnxEmbedding) -> None:
        expected = rows(weights(), TOKENS).mean(axis=0)
        for one in embed(hot, TEXT, tuple(TOKENS)):
            assert one == unit(expected)
        assert embed(hot, tuple(TOKENS[1:-1]))[0] == unit(rows(weights(), TOKENS[1:-1]).mean(axis=0))

    def test_texts_beyond_the_model(self, hot: OnnxEmbedding) -> None:
        assert len(embed(hot, "cat " * (CONTEXT - 2))) == 1
        with pytest.raises(ContextOverflow, match=rf"input 1 is more than {CONTEXT} tokens long") as caught:
            embed(hot, "cat", "cat " * (CONTEXT - 1))
        assert caught.value.param == "input"
        with pytest.raises(ContextOverflow, match=rf"input 0 is {CONTEXT + 1} tokens long"):
            embed(hot, (5,) * (CONTEXT + 1))
        with pytest.raises(InvalidRequest, match="token 9999 is not in the vocabulary of 70 tokens"):
            embed(hot, (9999,))
        with pytest.raises(InvalidRequest, match="input 0 holds no token"):
            embed(hot, ())
        with pytest.raises(InvalidRequest, match=r"\\ud800 alone"):
            embed(hot, "a \ud800")

    def test_tokens_of_all_texts_are_bounded(self, hot: OnnxEmbedding, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(whole_texts, "MOST_TOKENS", 10)
        with pytest.raises(InvalidRequest, match="the first 2 inputs are 11 tokens long; the limit is 10"):
            embed(hot, TEXT, "rain", "never read")

    def test_others_have_their_turn_while_long_texts_are_read(self, hot: OnnxEmbedding) -> None:
        """A word of any length is one token, so that the bound on tokens holds none of them up."""
        long = ("x" * (whole_texts.TURN // 2),) * 4
        events = list(hot.embed(EmbedRequest(long, cut=True), threading.Event()))
        assert [one is None for one in events] == [True, True, False, False, False, False]

    @pytest.mark.slow
    def test_many_texts_take_no_more_memory_than_one(self, hot: OnnxEmbedding) -> None:
        embed(hot, *["cat " * 90] * 10)
        before = pages.private_bytes()
        embed(hot, *["cat " * 90] * 500)
        assert pages.private_bytes() - before < 2 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "options", "expected"),
    [
        ("pooling_mode_mean_tokens", {}, lambda rows: rows.mean(axis=0)),
        ("pooling_mode_cls_token", {}, lambda rows: rows[0]),
        ("pooling_mode_lasttoken", {}, lambda rows: rows[-1]),
        ("pooling_mode_lasttoken", {"pooling": "cls"}, lambda rows: rows[0]),
        ("", {"pooling": "last"}, lambda rows: rows[-1]),
    ],
)
def test_each_model_is_pooled_as_its_files_and_the_settings_say(
    tmp_path: Path, pooling: str, options: dict[str, str], expected: Any
) -> None:
    files = write_onnx(tmp_path, pooling=pooling)
    engine = OnnxEmbedding(ModelSpec("embedding", "tiny", ENGINE, files, options=options))
    engine.heat()
    assert embed(engine, TEXT)[0] == unit(expected(rows(weights(), TOKENS)))
    engine.close()


@pytest.mark.slow
def test_a_graph_that_pools_itself_is_believed_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    files = write_onnx(tmp_path, pooled=True)
    for options, expected in (({}, lambda rows: rows.mean(axis=0)), ({"pooling": "cls"}, lambda rows: rows[0])):
        engine = OnnxEmbedding(ModelSpec("embedding", "tiny", ENGINE, files, options=options))
        engine.heat()
        assert embed(engine, TEXT)[0] == unit(expected(rows(weights(), TOKENS)))
        engine.close()


def test_an_unknown_pooling_names_the_way_out(tmp_path: Path) -> None:
    files = write_onnx(tmp_path, pooling="pooling_mode_max_tokens")
    engine = OnnxEmbedding(ModelSpec("embedding", "tiny", ENGINE, files))
    engine.heat()
    with pytest.raises(EngineFailure, match=r"pools by pooling_mode_max_tokens; expected one of .*or set pooling = "):
        embed(engine, TEXT)
    engine.close()


@pytest.mark.slow
def test_a_smaller_context_is_kept(tmp_path: Path) -> None:
    engine = OnnxEmbedding(ModelSpec("embedding", "tiny", ENGINE, write_onnx(tmp_path), options={"context": 64}))
    engine.heat()
    with pytest.raises(ContextOverflow, match="the context holds 64"):
        embed(engine, "cat " * 70)
    engine.close()
