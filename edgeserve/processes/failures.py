"""Errors as JSON, for the border between processes. Children that decode import no more of the server than this."""

from __future__ import annotations

from typing import Any

from edgeserve import errors
from edgeserve.errors import EdgeserveError, EngineFailure
from edgeserve.units import KB

Json = Any
LONGEST_RETRY = 1e6
"""Longest ``retry_after`` in seconds, which goes into a header of HTTP."""
LONGEST_TEXT = 64 * KB
"""Characters of a message, of a param and of a trace: a template may repeat a whole conversation in its refusal."""
MOST_FIGURES, LARGEST_FIGURE = 4, 1 << 53

_ERRORS = {name: one for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, EdgeserveError)}


def write_error(error: Exception, model: str, trace: str = "") -> Json:
    """An error that ended a step or an answer. ``trace`` goes to the server's log, not to the client."""
    if not isinstance(error, EdgeserveError):
        error = EngineFailure(f"{model} failed on this request: {error}")
    known = error if error.__class__.__name__ in _ERRORS else EngineFailure(error.message)
    message, param = known.message[:LONGEST_TEXT], known.param and known.param[:LONGEST_TEXT]
    return [type(known).__name__, message, param, known.retry_after, list(known.figures), trace[-LONGEST_TEXT:]]


def read_error(value: Json) -> EdgeserveError:
    """Raises ValueError for anything but an error."""
    try:
        name, message, param, retry_after, figures, trace = value
        error = _ERRORS[name](
            str(message), param=_param(param), retry_after=_seconds(retry_after), figures=_figures(figures)
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"no error of an edgeserve process: {problem}") from problem
    if trace:
        error.add_note(str(trace))
    return error


def _param(value: Json) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError("a param that is no text")


def _seconds(value: Json) -> float | None:
    if value is None or (isinstance(value, int | float) and 0 <= value <= LONGEST_RETRY):
        return value
    raise ValueError(f"a time of at most {LONGEST_RETRY:g} s is no such time")


def _figures(value: Json) -> tuple[int, ...]:
    if isinstance(value, list | tuple) and len(value) <= MOST_FIGURES:
        figures = tuple(one for one in value if type(one) is int and 0 <= one <= LARGEST_FIGURE)
        if len(figures) == len(value):
            return figures
    raise ValueError(f"figures are at most {MOST_FIGURES} whole numbers up to {LARGEST_FIGURE}")
