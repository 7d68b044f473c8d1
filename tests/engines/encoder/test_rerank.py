"""Cross-encoders on ONNX Runtime: numbers equal to the same weights in NumPy."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.contract import RerankContract
from support.tiny_bert import CONTEXT, HEAD, logit, weights
from support.tiny_bert_onnx import write_onnx

from edgeserve.engine import ModelSpec
from edgeserve.engines import whole_texts
from edgeserve.engines.encoder.rerank import OnnxRerank
from edgeserve.errors import ContextOverflow, EngineFailure
from edgeserve.messages import RerankRequest

ENGINE = "edgeserve.engines.encoder.rerank:OnnxRerank"
CLS, SEP, CAT, SOFA, RAIN = 2, 3, 5, 10, 12


class TestOnnxRerank(RerankContract):
    make = OnnxRerank

    @pytest.fixture(scope="class")
    @classmethod
    def files(cls, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
        return write_onnx(tmp_path_factory.mktemp("rerank"), head=tuple(HEAD))

    @pytest.fixture
    def spec(self, files: dict[str, Path]) -> ModelSpec:
        return ModelSpec("rerank", "tiny", ENGINE, files)

    def test_logits_are_those_of_the_same_weights_in_numpy(self, hot: OnnxRerank) -> None:
        events = list(hot.rerank(RerankRequest("cat", ("rain sofa", "")), threading.Event()))
        pairs = [([CLS, CAT, SEP, RAIN, SOFA, SEP], [0, 0, 0, 1, 1, 1]), ([CLS, CAT, SEP, SEP], [0, 0, 0, 1])]
        for event, (tokens, types) in zip(events, pairs, strict=True):
            assert event.logit == pytest.approx(logit(weights(1, tuple(HEAD)), tokens, types), abs=1e-5)
            assert event.tokens == len(tokens)

    def test_a_query_that_leaves_a_long_document_little_room_is_refused(self, hot: OnnxRerank) -> None:
        query = "cat " * (CONTEXT - 20)
        assert len(list(hot.rerank(RerankRequest(query, ("sofa",)), threading.Event()))) == 1
        with pytest.raises(ContextOverflow, match="shorten the query") as caught:
            list(hot.rerank(RerankRequest(query, ("sofa " * 90,)), threading.Event()))
        assert caught.value.param == "query"

    def test_others_have_their_turn_while_long_documents_are_read(self, hot: OnnxRerank) -> None:
        long = ("x" * (whole_texts.TURN // 2),) * 4
        events = list(hot.rerank(RerankRequest("cat", long), threading.Event()))
        assert [one is None for one in events] == [True, True, False, False, False, False]


@pytest.mark.slow
def test_a_graph_without_segments(tmp_path: Path) -> None:
    engine = OnnxRerank(ModelSpec("rerank", "tiny", ENGINE, write_onnx(tmp_path, head=tuple(HEAD), types=False)))
    engine.heat()
    (event,) = engine.rerank(RerankRequest("cat", ("rain",)), threading.Event())
    assert event.logit == pytest.approx(logit(weights(1, tuple(HEAD)), [CLS, CAT, SEP, RAIN, SEP]), abs=1e-5)
    engine.close()


def test_a_graph_that_makes_vectors_is_told_apart(tmp_path: Path) -> None:
    engine = OnnxRerank(ModelSpec("rerank", "tiny", ENGINE, write_onnx(tmp_path)))
    engine.heat()
    with pytest.raises(EngineFailure, match=r"gives last_hidden_state; none is logits"):
        list(engine.rerank(RerankRequest("cat", ("rain",)), threading.Event()))
    engine.close()
