"""Vectors of texts by encoders on ONNX Runtime, such as all-MiniLM, BGE and E5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.engine import Cancel, ModelSpec
from edgeserve.engines.encoder.config import Pooling, read_pooling
from edgeserve.engines.encoder.facts import facts as facts
from edgeserve.engines.encoder.model import Encoder, EncoderFiles
from edgeserve.engines.encoder.model import prepare as prepare
from edgeserve.engines.encoder.tokens import Text
from edgeserve.engines.onnx.ladder import OnnxLadder
from edgeserve.engines.whole_texts import long_input, read_inputs, unit
from edgeserve.messages import EmbeddingEvent, EmbedRequest
from edgeserve.system import heap

POOLED = "sentence_embedding"
"""Output of a graph that pools its rows itself (sentence-transformers' export)."""


class OnnxEmbedding(OnnxLadder[Encoder]):
    """Options: engines/encoder/options.py; ``context`` is the longest text in tokens. Files: ``EncoderFiles``.

    The rows of a text become its vector as ``pooling`` says, else as the graph or the file ``pooling`` says, else by
    their mean. One text at a time.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._encoder_files = EncoderFiles(spec)
        super().__init__(spec, self._encoder_files)

    def embed(self, request: EmbedRequest, cancel: Cancel) -> Iterator[EmbeddingEvent | None]:
        model, texts = self._opened(), list[Text]()

        def given(tokens: tuple[int, ...]) -> Text:
            return model.tokens.given(tokens[: model.longest] if request.cut else tokens)

        def read(number: int) -> Sequence[int]:
            one = request.inputs[number]
            text = model.tokens.text(one, model.longest) if isinstance(one, str) else given(one)
            if not request.cut and (text.cut or len(text.tokens) > model.longest):
                count = f"more than {model.longest}" if text.cut else str(len(text.tokens))
                raise long_input(number, count, model.longest)
            texts.append(text)
            return text.tokens

        yield from read_inputs(request.inputs, read, cancel.is_set)
        chosen = self._encoder_files.options.pooling
        mode = read_pooling(self.spec.files.get("pooling")) if chosen == "auto" else chosen
        output = model.output(*((POOLED,) if chosen == "auto" else ()), "last_hidden_state", rank=3)
        try:
            for text in texts:
                if cancel.is_set():
                    return
                yield EmbeddingEvent(unit(pooled(model.run(text, output), mode)), len(text.tokens))
        finally:
            heap.trim()


def pooled(rows: Any, mode: Pooling) -> Any:
    """One row, float32 [width], of rows [tokens, width]. One row alone is pooled already."""
    if rows.ndim == 1:
        return rows
    return {"mean": rows.mean(axis=0), "cls": rows[0], "last": rows[-1]}[mode]
