"""A client's grammar beside a sampler chain. llama.cpp never reads it (docs/decisions/0031)."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgeserve.engines.grammar.gbnf import FIELD, Gbnf
from edgeserve.engines.grammar.matcher import Matcher
from edgeserve.engines.grammar.rules import Unsayable
from edgeserve.engines.grammar.turns import TURNS
from edgeserve.engines.llama.constraint import Constraint
from edgeserve.engines.llama.forced import NOTHING, Ahead
from edgeserve.engines.llama.runtime import llama
from edgeserve.errors import Cancelled, InvalidRequest

if TYPE_CHECKING:
    from edgeserve.engines.llama.grammar import Written


def constraint(grammar: Written, vocabulary: Any, field: str, stopped: threading.Event) -> Constraint:
    """The constraint of a grammar. ``field`` and errors as in ``Constraint``; ``stopped`` as in ``OwnConstraint``."""
    if isinstance(grammar, Gbnf):
        return OwnConstraint(grammar, vocabulary, stopped)
    return Constraint(grammar, vocabulary, field)


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """Work in turn with other answers. Raise InvalidRequest instead of Unsayable."""
    try:
        with TURNS.one():
            yield
    except Unsayable as error:
        raise InvalidRequest(f"{FIELD}: {error}", param=FIELD) from None


class OwnConstraint(Constraint):
    """Follows the grammar in this process, in bounded time. Its methods raise InvalidRequest beyond the bounds.

    Answers take turns at it. ``stopped`` ends the work under way, on whatever thread, once it is set.
    """

    def __init__(self, grammar: Gbnf, vocabulary: Any, stopped: threading.Event) -> None:
        self._stopped = stopped
        self._set(vocabulary, FIELD)
        self._vocabulary = vocabulary
        with _named():
            self._matcher = Matcher(grammar, self._pause)
        self._texts: dict[int, bytes] = {}

    def _pause(self) -> None:
        if self._stopped.is_set():
            raise Cancelled("the answer has ended")
        TURNS.pass_on()

    def accept(self, token: int) -> None:
        if not self._ends(token):
            with _named():
                self._matcher.accept(self._text(token))

    def allows(self, token: int) -> bool:
        with _named():
            return self._fits(token)

    def allowed(self, logits: Any) -> Any:
        if not self._matcher.over:
            return super().allowed(logits)
        runtime = llama()
        ends = {runtime.llama_vocab_eos(self._vocabulary), runtime.llama_vocab_eot(self._vocabulary)} - {-1}
        rows = self._data[: len(ends)]
        for row, token in zip(rows, sorted(ends), strict=True):
            row["id"], row["logit"] = token, logits[token]
        rows = rows[rows["logit"] > float("-inf")]
        # Without any, the request forbids the end, too: the search of all tokens then finds out why there is no answer.
        return rows if len(rows) else super().allowed(logits)

    def ahead(self) -> Ahead:
        """Nothing: the bounds are on the tokens of the answer."""
        return NOTHING

    def free(self) -> None:
        """There is nothing to free."""

    def _filter(self, rows: Any) -> Any:
        with _named():
            fits = [self._fits(int(token)) for token in rows["id"]]
        kept = rows[fits]
        return kept[kept["logit"] > float("-inf")]

    def _fits(self, token: int) -> bool:
        return self._matcher.may_end if self._ends(token) else self._matcher.allows(self._text(token))

    def _ends(self, token: int) -> bool:
        return bool(llama().llama_vocab_is_eog(self._vocabulary, token))

    def _text(self, token: int) -> bytes:
        """The bytes of a token; empty for a control token, which a client's grammar cannot name."""
        if token not in self._texts:
            buffer = ctypes.create_string_buffer(512)
            length = llama().llama_token_to_piece(self._vocabulary, token, buffer, len(buffer), 0, False)
            self._texts[token] = buffer.raw[: max(0, length)]
        return self._texts[token]
