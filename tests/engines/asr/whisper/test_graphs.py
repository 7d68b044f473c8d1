"""The memory of the encoder's activations from one window to the next, with sessions that compute nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from edgeserve.engines.asr.whisper import graphs
from edgeserve.engines.asr.whisper.graphs import FEW, Graphs
from edgeserve.engines.asr.whisper.onnx import (
    ENCODER_STATES,
    MOST_PLACES,
    WINDOW_BYTES,
    kept_beside,
    places,
    request_bytes,
)

TINY = {"width": 384, "decoder_layers": 4, "decoder_heads": 6, "alignment_heads": range(8)}
BASE = {"width": 512, "decoder_layers": 6, "decoder_heads": 8, "alignment_heads": range(8)}
LARGE = {"width": 1280, "decoder_layers": 32, "decoder_heads": 20, "alignment_heads": range(10)}
KEPT = 20
LAYER = {"past_k_0": [1, 2, 4, "past"], "past_v_0": [1, 2, "past", 4]}


class Told:
    """Runs of the encoder, and whether its memory is kept after each; returns of kept memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
        inputs = [SimpleNamespace(name=name, shape=shape) for name, shape in LAYER.items()]
        logits = SimpleNamespace(name="logits", shape=["b_r", 8])
        whole = SimpleNamespace(get_inputs=lambda: inputs, get_outputs=lambda: [logits])
        one: Any = SimpleNamespace(whole=whole, now=lambda: None)
        rows: Any = SimpleNamespace(rows=lambda tokens: numpy.zeros((len(tokens), 8), numpy.float32))
        self.said: list[str] = []
        monkeypatch.setattr(graphs.session, "run", self._run)
        monkeypatch.setattr(graphs.session, "run_bound", self._run_bound)
        monkeypatch.setattr(graphs.session, "empty", lambda: self.said.append("returned"))
        self.graphs = Graphs(one, one, one, rows, kept)

    def _run(self, _: Any, names: Any, inputs: Any, *, reuse: bool = False, passing: bool = False) -> list[Any]:
        if reuse:
            self.said.append("kept" if passing else "returns")
        return [numpy.zeros(1, numpy.float32)]

    def _run_bound(self, _: Any, inputs: Any, into: Any, names: Any = (), **how: Any) -> list[Any]:
        return list(LAYER)

    def decode(self, count: int, total: int) -> None:
        tokens = [[0] * count]
        mask = numpy.zeros((1, 1, count, total), numpy.float32)
        self.graphs.step(tokens, numpy.zeros((1, count), numpy.int64), mask, [0], {}, {})


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch, KEPT)


def test_the_memory_stays_while_short_texts_are_decoded_and_goes_with_the_request(told: Told) -> None:
    for _ in range(2):
        told.graphs.listen(None, {})
        told.decode(FEW, FEW)
        told.decode(1, KEPT)
    told.graphs.end()
    told.graphs.end()
    assert told.said == ["kept", "kept", "returned"]


def test_it_goes_before_a_long_text(told: Told) -> None:
    told.graphs.listen(None, {})
    told.decode(1, KEPT + 1)
    told.decode(1, KEPT + 2)
    assert told.said == ["kept", "returned"]


def test_it_goes_before_a_prompt_of_many_tokens(told: Told) -> None:
    told.graphs.listen(None, {})
    told.decode(FEW + 1, FEW + 1)
    assert told.said == ["kept", "returned"]


def test_it_goes_before_words_are_aligned(told: Told) -> None:
    told.graphs.listen(None, {})
    told.graphs.align([0], {})
    assert told.said == ["kept", "returned"]


def test_nothing_is_kept_where_no_text_has_room_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, 0)
    told.graphs.listen(None, {})
    told.decode(1, 5)
    told.graphs.end()
    assert told.said == ["returns"]


@pytest.mark.parametrize("shape", [TINY, BASE], ids=["tiny", "base"])
def test_what_is_kept_has_room_in_what_is_booked(shape: Any) -> None:
    """The encoder's activations, the audio of all windows, and three caches of their texts."""
    count, states = places(shape, {}), 4 * 1500 * shape["width"]
    tokens = kept_beside(shape, count)
    held = ENCODER_STATES * states + WINDOW_BYTES + count * 2 * shape["decoder_layers"] * states
    caches = 3 * count * 2 * shape["decoder_layers"] * 4 * shape["width"]
    assert held + tokens * caches <= request_bytes(shape, count) < held + (tokens + 2) * caches
    assert tokens > 0


def test_a_large_model_keeps_nothing() -> None:
    assert kept_beside(LARGE, places(LARGE, {})) == 0


def test_a_model_of_unknown_shape_keeps_nothing() -> None:
    assert kept_beside({}, MOST_PLACES) == 0
