"""Rules of models that read whole texts: limits of one request, the room of a document beside its query, vectors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence, Sized
from typing import Any, Protocol, TypeVar

from edgeserve.dataclass import dataclass
from edgeserve.errors import ContextOverflow, InvalidRequest
from edgeserve.messages import RerankRequest

MOST_TOKENS = 300_000
"""Tokens of all texts of a request, as at OpenAI. Tokenising so many takes half a second, in which the engine prepares
no other request."""
TURN = 64 << 10
"""Characters after which a reader gives way: 40 ms of a tokenizer. They may make few tokens, as one long word does."""
DOCUMENT_SHARE = 4
"""A query that leaves a longer document less than this part of the room is refused: the rest of it would say little."""


class Pair(Protocol):
    """A query with one document. ``cut``: the document continues."""

    @property
    def tokens(self) -> Sequence[int]: ...

    @property
    def cut(self) -> bool: ...


P = TypeVar("P", bound=Pair)
T = TypeVar("T")
Reading = Generator[None, None, T]
"""Reads texts, and yields None now and then, so that others may have their turn. Returns what it has read."""


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens: ``most`` of a query with a document, ``beside`` the document, ``most_document`` of a document.

    Raises ContextOverflow where nothing is left to a document.
    """

    most: int
    beside: int
    most_document: int | None

    def __post_init__(self) -> None:
        if self.left < 1:
            raise long_query(str(self.beside), self.most)

    @property
    def left(self) -> int:
        return self.most - self.beside

    @property
    def limit(self) -> int:
        """Tokens of a document at most."""
        return self.left if self.most_document is None else min(self.left, self.most_document)

    def check_cut(self) -> None:
        """Check that a document may be cut to the limit. Raises ContextOverflow."""
        if self.limit == self.left < self.most // DOCUMENT_SHARE:
            raise long_query(str(self.beside), self.most)


def long_query(count: str, most: int) -> ContextOverflow:
    """The error for a query that leaves documents no room."""
    text = f"the query is {count} tokens long; the model reads {most} tokens of a query with a document"
    return ContextOverflow(f"{text}: shorten the query, or raise context in models.toml", param="query")


def never() -> bool:
    return False


def read_documents(
    request: RerankRequest, read: Callable[[str], P], limit: int, stop: Callable[[], bool] = never
) -> Reading[list[P]]:
    """The pairs of all documents, or of the first ones as soon as ``stop``. ``limit``: tokens of a document at most.

    Raises ContextOverflow for a longer document where none may be cut, InvalidRequest for too many tokens.
    """
    pairs, total, turn = list[P](), 0, _Turn()
    for number, document in enumerate(request.documents):
        if stop():
            break
        pair = read(document)
        if pair.cut and not request.cut:
            text = f"document {number} has more than {limit} tokens, which is all that the query leaves it"
            raise ContextOverflow(f"{text}: shorten it, or let documents be cut", param="documents")
        total += len(pair.tokens)
        if total > MOST_TOKENS:
            text = f"the first {number + 1} documents have {total} tokens with the query; the limit is {MOST_TOKENS}"
            raise InvalidRequest(f"{text}: send fewer", param="documents")
        pairs.append(pair)
        yield from turn.behind(document)
    return pairs


def read_inputs(
    given: Sequence[Sized], read: Callable[[int], Sequence[int]], stop: Callable[[], bool] = never
) -> Reading[list[Sequence[int]]]:
    """The tokens of all inputs, each as ``read`` has them by its number, or of the first ones as soon as ``stop``.

    Raises InvalidRequest for an input without tokens, and for too many.
    """
    inputs, total, turn = list[Sequence[int]](), 0, _Turn()
    for number, one in enumerate(given):
        if stop():
            break
        tokens = read(number)
        if not tokens:
            raise InvalidRequest(f"input {number} holds no token", param="input")
        total += len(tokens)
        if total > MOST_TOKENS:
            text = f"the first {number + 1} inputs are {total} tokens long; the limit is {MOST_TOKENS}: send fewer"
            raise InvalidRequest(text, param="input")
        inputs.append(tokens)
        yield from turn.behind(one)
    return inputs


class _Turn:
    """Characters, or tokens that the client made, since others had their turn."""

    def __init__(self) -> None:
        self._read = 0

    def behind(self, text: Sized) -> Reading[None]:
        self._read += len(text)
        if self._read >= TURN:
            self._read = 0
            yield None


def at_once(reading: Reading[T]) -> T:
    """Read to the end, where nobody waits for a turn; returns what the reader does."""
    while True:
        try:
            next(reading)
        except StopIteration as end:
            found: T = end.value
            return found


def long_input(number: int, count: str, limit: int) -> ContextOverflow:
    """The error for an input of ``count`` tokens."""
    text = f"input {number} is {count} tokens long; the context holds {limit}"
    return ContextOverflow(f"{text}: cut it up, or raise context in models.toml", param="input")


def half_character(error: UnicodeEncodeError) -> InvalidRequest:
    """The error for a text that UTF-8 cannot hold."""
    half = ord(error.object[error.start])
    return InvalidRequest(f"a text holds \\u{half:04x} alone, which is half of a character")


def unit(vector: Any) -> bytes:
    """A vector scaled to length 1, as float32 in little-endian order. A vector of zeros stays so."""
    import numpy

    length = float(numpy.linalg.norm(vector))
    return bytes((vector / (length or 1.0)).astype("<f4").tobytes())
