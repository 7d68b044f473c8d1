"""One sequence of a context, and what is still to be decoded in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgeserve.errors import EdgeserveError
from engines.llama.cache import shared


class Slot:
    """One sequence. ``tokens`` are in the cache, at the positions from 0; ``pending`` are still to be decoded.

    ``output``: where the logits after the last decoded token lie, None while tokens are pending. ``position``: the next
    one; ``cells``: what is taken of the context. The two differ from the tokens when a picture is among them; then the
    slot is ``opaque``, with no prefix to share. ``job``: what the next step does for it first, such as decoding a
    picture; ``refused``: why that failed. ``full``: the context has no room for more of it. ``held``: it
    starts over when another conversation has ended. ``salt``: only prompts of the same salt may share a prefix with it.
    """

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.busy = False
        self.used = 0
        self.salt = ""
        self.forget()

    def forget(self) -> None:
        self.tokens: list[int] = []
        self.pending: list[int] = []
        self.output: int | None = None
        self.position = self.cells = 0
        self.job: Callable[[], None] | None = None
        self.refused: EdgeserveError | None = None
        self.opaque = self.full = self.held = False

    def hold(self, tokens: Sequence[int]) -> None:
        """These are in the cache now."""
        self.tokens, self.position, self.cells = list(tokens), len(tokens), len(tokens)

    @property
    def reusable(self) -> Sequence[int]:
        return () if self.opaque else self.tokens

    @property
    def waiting(self) -> bool:
        return bool(self.pending) and not self.full and not self.held

    @property
    def idle(self) -> bool:
        """Nobody uses it, and it takes room."""
        return not self.busy and self.cells > 0

    def shared(self, tokens: Sequence[int], salt: str) -> int:
        """Length of the prefix that a prompt of this salt may share with it."""
        return shared(self.reusable, tokens) if salt == self.salt else 0
