"""The memory of a transcription model that is not here, by the figures of its catalogue entry."""

from __future__ import annotations

from edgeserve.engine import Footprint, Listed
from edgeserve.engines.asr.model import VAD_BYTES
from edgeserve.engines.asr.model import footprint as by_bytes
from edgeserve.engines.asr.whisper.files import exact
from edgeserve.engines.asr.whisper.onnx import SESSIONS_BYTES, places, request_bytes

FLOAT_BYTES, INT8_BYTES = 4.0, 1.14
"""Bytes of mapped weights for each parameter of Whisper, in the two forms that a pull writes; measured on tiny.en."""


def footprint(model: Listed) -> Footprint | None:
    """The estimate of the engine, with the form of the weights that this processor gets. None where bytes lack."""
    if model.options.get("family"):
        return by_bytes(model.size_bytes, 0, VAD_BYTES)
    if not model.shape or not model.parameters:
        return None
    mapped = int(model.parameters * (INT8_BYTES if exact() else FLOAT_BYTES))
    # OpenAI marks about as many alignment heads as a layer has heads.
    shape = {**model.shape, "alignment_heads": range(model.shape["decoder_heads"])}
    request = request_bytes(shape, places(shape, model.options))
    return Footprint(mapped, SESSIONS_BYTES + VAD_BYTES, request)
