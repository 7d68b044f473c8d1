"""Facts about an encoder for people and programs that choose among models, from its config.json."""

from __future__ import annotations

from edgeserve.engine import ModelSpec
from edgeserve.engine_abilities import ModelFacts
from edgeserve.engines.encoder.config import read_shape, read_type


def facts(spec: ModelSpec) -> ModelFacts:
    """Raises EngineFailure naming the file."""
    path = spec.files["config"]
    shape = read_shape(path)
    return ModelFacts(form="onnx", family=read_type(path), context=shape.positions, width=shape.width)
