"""The memory of a speaker encoder that is not here, by the figures of its catalogue entry."""

from __future__ import annotations

from edgeserve.engine import Footprint, Listed
from edgeserve.engines.asr.speakers.onnx import FLOAT, footprint_of


def footprint(model: Listed) -> Footprint | None:
    """The engine's estimate. None where the number of weights is unknown."""
    return footprint_of(FLOAT * model.parameters) if model.parameters else None
