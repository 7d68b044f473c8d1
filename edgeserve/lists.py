"""Requests with a list of texts, to turn into vectors or to judge by a query, and the events of their answers."""

from __future__ import annotations

from dataclasses import field

from edgeserve.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """Texts, or their tokens, to turn into vectors. ``cut``: cut longer ones. The rest is as in ``ChatRequest``."""

    inputs: tuple[str | tuple[int, ...], ...]
    adapters: tuple[tuple[str, float], ...] | None = None
    cut: bool = False
    salt: str = ""


@dataclass(frozen=True, slots=True)
class EmbeddingEvent:
    """The next input as a vector of length 1, float32 little-endian. The input has ``tokens`` tokens."""

    vector: bytes = field(repr=False)
    tokens: int


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """Documents to judge by a query.

    - ``max_tokens``: tokens of the query with one document at most; None: as many as the model reads
    - ``max_document_tokens``: tokens of one document at most; None: as many as there is room for
    - ``cut``: cut longer documents at their end; without it, one is an error
    """

    query: str
    documents: tuple[str, ...]
    max_tokens: int | None = None
    max_document_tokens: int | None = None
    cut: bool = True


@dataclass(frozen=True, slots=True)
class RerankEvent:
    """The relevance of the next document.

    - ``logit``: higher is more relevant; its sigmoid is a probability
    - ``tokens``: tokens that the model read, the query with the document
    - ``cut``: the document was cut
    """

    logit: float
    tokens: int
    cut: bool = False
