"""The memory of a voice that is not here, by the figures of its catalogue entry."""

from __future__ import annotations

from pathlib import Path

from edgeserve.engine import Footprint, Listed, ModelSpec
from edgeserve.engines.tts import onnx
from edgeserve.jobs import INFO


def footprint(model: Listed) -> Footprint | None:
    """The estimate of the engine. None for an unknown family."""
    family = onnx.FAMILIES.get(str(model.options.get("family")))
    if family is None:
        return None
    files = {role: Path(role) for role in {"model": 0, **model.sizes}}
    spec = ModelSpec(model.job, "", INFO[model.job].engine, files, options=model.options)
    weights = model.sizes.get("model", model.size_bytes)
    return onnx.footprint(family, weights, len(family.graphs(spec)), family.accents(spec))
