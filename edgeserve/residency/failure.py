"""The error that a client reads when work fails."""

from __future__ import annotations

import logging

from edgeserve.errors import EdgeserveError, EngineFailure, Unreachable

log = logging.getLogger("edgeserve.gate")


def explain(model: str, error: Exception) -> EdgeserveError:
    """``error`` itself when it is one of the product's, else an EngineFailure. Logs every failure of the engine."""
    if isinstance(error, EdgeserveError) and not isinstance(error, EngineFailure):
        return error
    if isinstance(error, Unreachable):
        log.error("%s: %s", model, error.message)
        return error
    log.error("%s failed", model, exc_info=error)
    return error if isinstance(error, EngineFailure) else EngineFailure(f"{model} failed on this request: {error}")
