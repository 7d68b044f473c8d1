"""Every error the server can give. No HTTP here: ``api/failures.py`` gives each code its status.

The tree of errors:
    EdgeserveError
    ├── InvalidRequest            the request is wrong; ``param`` names the field
    │   ├── ContextOverflow       the prompt does not fit in the model's context
    │   ├── PreviousResponseNotFound  the response to continue from is not kept, or another client's
    │   ├── UnsupportedMedia      audio or image in a form that cannot be read
    │   ├── TooLarge              a body, an image or an audio beyond the limit
    │   └── NotSupported          it asks for what this server, or this model, does not have
    ├── Unauthorized              no key or a wrong one
    ├── Forbidden                 a page of another site asks, a foreign name is asked for, or the key may not ask this
    ├── NotFound                  no such route or session
    │   └── ModelNotFound         no model of this name is served
    ├── RequestTimeout            the client did not send in time; the text says what was awaited
    ├── InUse                     a model is served, or changes now, and cannot be removed or changed
    ├── NotConfigured             the engine is not listed in models.toml
    ├── Busy                      the queue is full; ``retry_after`` says when to come back
    ├── TooManyRequests           a limit of the client's key is reached; ``retry_after`` says when to come back
    ├── ShuttingDown              the server is draining
    ├── DoesNotFit                the model cannot be held inside the memory budget
    │   └── ContextReduced        a prompt fits the context that is configured, and not the one that memory left
    ├── MemoryPressure            memory ran critical while the answer was being made
    ├── Cancelled                 the client left
    ├── SlowReader                the client reads its answer too slowly while others wait
    ├── EngineFailure             the runtime failed; the engine has been closed
    │   └── Unreachable           another machine that holds a part of the model does not answer, or may not be asked
    ├── Restarting                the process of an engine keeps ending; ``retry_after`` says when it starts again
    ├── ConfigError               models.toml, a variable or a flag is wrong
    └── StoreError                a model file cannot be had
    ├── ModelMissing          not pulled yet
    │   └── ModelUnknown      a name that means no model
    ├── ModelDamaged          pulled, but a file of it is cut, gone or not what the store wrote
    ├── ChecksumMismatch      the bytes are not the promised ones
    ├── DiskFull              not enough free disk space
    └── SourceUnavailable     the source did not answer, or not with the file
"""

from __future__ import annotations


class EdgeserveError(Exception):
    """Base of all errors of the product.

    ``message`` is for the user: what happened, with numbers, and what to do. ``param`` names the field of the
    request, ``retry_after`` is in seconds; both are None where they say nothing. ``figures`` are numbers of the message
    for dialects with their own words; the class says which.
    """

    code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        retry_after: float | None = None,
        figures: tuple[int, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.figures = figures

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by the default pickling of exceptions.
        return _rebuild, (type(self), self.message, self.param, self.retry_after, self.figures)


def _rebuild(
    kind: type[EdgeserveError], message: str, param: str | None, retry_after: float | None, figures: tuple[int, ...]
) -> EdgeserveError:
    return kind(message, param=param, retry_after=retry_after, figures=figures)


class InvalidRequest(EdgeserveError):
    code = "invalid_request"


class ContextOverflow(InvalidRequest):
    """``figures``: tokens of a chat's prompt, or a number that they exceed, and tokens of the longest prompt."""

    code = "context_length_exceeded"


class PreviousResponseNotFound(InvalidRequest):
    code = "previous_response_not_found"


class UnsupportedMedia(InvalidRequest):
    code = "unsupported_media"


class TooLarge(InvalidRequest):
    code = "too_large"


class NotSupported(InvalidRequest):
    code = "not_supported"


class Unauthorized(EdgeserveError):
    code = "invalid_api_key"


class Forbidden(EdgeserveError):
    code = "forbidden"


class NotFound(EdgeserveError):
    code = "not_found"


class ModelNotFound(NotFound):
    code = "model_not_found"


class RequestTimeout(EdgeserveError):
    code = "request_timeout"


class InUse(EdgeserveError):
    code = "in_use"


class NotConfigured(EdgeserveError):
    code = "engine_not_configured"


class Busy(EdgeserveError):
    code = "queue_full"


class TooManyRequests(EdgeserveError):
    code = "rate_limit_exceeded"


class ShuttingDown(EdgeserveError):
    code = "shutting_down"


class DoesNotFit(EdgeserveError):
    code = "insufficient_memory"


class ContextReduced(DoesNotFit): ...


class MemoryPressure(EdgeserveError):
    code = "memory_pressure"


class Cancelled(EdgeserveError):
    code = "cancelled"


class SlowReader(EdgeserveError):
    code = "slow_reader"


class EngineFailure(EdgeserveError):
    code = "engine_failure"


class Unreachable(EngineFailure):
    """Says all there is to know; no fault of the engine."""

    code = "machine_unreachable"


class Restarting(EdgeserveError):
    code = "engine_restarting"


class ConfigError(EdgeserveError):
    code = "config_error"


class StoreError(EdgeserveError):
    code = "store_error"


class ModelMissing(StoreError):
    code = "model_missing"


class ModelUnknown(ModelMissing):
    """No pull can bring it."""

    code = "model_unknown"


class ModelDamaged(StoreError):
    code = "model_damaged"


class ChecksumMismatch(StoreError):
    code = "checksum_mismatch"


class DiskFull(StoreError):
    code = "disk_full"


class SourceUnavailable(StoreError):
    code = "source_unavailable"
