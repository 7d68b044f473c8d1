"""The memory of a language model that is not here, by the numbers of its catalogue entry."""

from __future__ import annotations

import dataclasses

from edgeserve.engine import Footprint, Listed
from edgeserve.engines.llama.estimate import by_shape
from edgeserve.engines.llama.gguf import Shape
from edgeserve.engines.llama.options import DEFAULT_CONTEXT, read_options

NUMBERS = ("layers", "width", "feed_forward", "key_value_width", "vocabulary", "trained_context")


def footprint(model: Listed) -> Footprint | None:
    """The estimate that a pulled model has without llama.cpp. None for a model without a shape.

    The projector of a vision model is read, not mapped. A picture comes on top. A context of automatic size counts with
    the tokens that it must have: the rest only takes room that is there.
    """
    projector = model.sizes.get("mmproj", 0)
    weights = model.sizes.get("model", model.size_bytes - projector)
    if not model.shape:
        return None
    shape = Shape(**{name: model.shape[name] for name in NUMBERS}, window=0)
    options = read_options(model.job, model.options)
    layout = by_shape(shape, dataclasses.replace(options, context=options.context or DEFAULT_CONTEXT))
    return Footprint(mapped=weights, private=layout.model + layout.context + projector)
