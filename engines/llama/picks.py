"""Samples the next tokens of an answer: one, and one more for each token of a draft that agrees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.background import Background
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.logprobs import Logprobs
from edgeserve.engines.llama.sampler import Sampler
from edgeserve.engines.llama.slot import Slot
from edgeserve.errors import EdgeserveError
from edgeserve.messages import TokenLogprob


@dataclass(frozen=True, slots=True)
class Picks:
    """Sampled tokens.

    found   each with its log probability, where the request asks for it; all but the last are those of the draft
    forced  tokens after them that need not be sampled: the grammar allows no other text
    likely  a guess at those after the forced ones
    error   why no other token could be sampled
    """

    found: Sequence[tuple[int, TokenLogprob | None]]
    forced: Sequence[int] = ()
    likely: Sequence[int] = ()
    error: EdgeserveError | None = None


class Picker:
    """Samples for one answer, in the order of its tokens, by the answer's own sampler. So drafts change no answer.

    ``alternatives``: of each token, with its log probability; None: no log probabilities. ``guesses``: guess at the
    text that a grammar forces.
    """

    def __init__(
        self,
        context: Context,
        sampler: Sampler,
        alternatives: int | None,
        background: Background,
        *,
        guesses: bool = False,
    ) -> None:
        self._guesses = guesses
        self._context, self._sampler, self._background = context, sampler, background
        self._logprobs = None if alternatives is None else Logprobs(context, alternatives)

    def pick(self, slot: Slot) -> Generator[None, None, Picks]:
        """The next tokens of a slot whose logits are there. Yields None for each step of the batch meanwhile.

        Raises InvalidRequest when the grammar allows no token at all.
        """
        output, draft = slot.output, tuple(slot.draft)
        if output is None:
            raise RuntimeError("the slot has no logits")
        if not self._sampler.constrained:
            return Picks(self._agreeing(draft, lambda at: self._free(output + at)))
        # The next step of the batch overwrites the originals.
        rows = [self._context.logits(output + at).copy() for at in range(len(draft) + 1)]
        return (yield from self._background.run(functools.partial(self._constrained, draft, rows)))

    def _free(self, output: int) -> tuple[int, TokenLogprob | None]:
        token = self._sampler.sample(self._context.handle, output)
        return token, self._logprob(token, lambda: self._context.logits(output))

    def _logprob(self, token: int, logits: Callable[[], Any]) -> TokenLogprob | None:
        return None if self._logprobs is None else self._logprobs.of(token, logits())

    def _constrained(self, draft: Sequence[int], rows: Sequence[Any]) -> Picks:
        """Any thread."""

        def sample(at: int) -> tuple[int, TokenLogprob | None]:
            token = self._sampler.sample_constrained(rows[at])
            return token, self._logprob(token, lambda: rows[at])

        found: list[tuple[int, TokenLogprob | None]] = []
        try:
            self._agreeing(draft, sample, found)
        except EdgeserveError as error:
            if not found:
                raise
            return Picks(found, error=error)
        if not self._guesses or self._context.model.ends(found[-1][0]):
            return Picks(found)
        return Picks(found, *self._ahead())

    def _ahead(self) -> tuple[Sequence[int], Sequence[int]]:
        """Forced tokens, which the sampler then accepts, and likely ones after them.

        The forced ones end before the last token of the forced text: it may be the beginning of a longer one. Log
        probabilities need all tokens sampled.
        """
        ahead = self._sampler.ahead()
        forced = self._tokens(ahead.certain)[:-1] if self._logprobs is None else ()
        self._sampler.accept(forced)
        begun = sum(len(self._context.model.piece(one, special=True).decode()) for one in forced)
        return forced, self._tokens(ahead.likely[begun:])

    def _tokens(self, text: str) -> Sequence[int]:
        """The text as the model itself would write it; empty where that spells another text, or parts of characters."""
        model = self._context.model
        tokens = model.tokenize(text, add_special=False) if text else []
        pieces = [model.piece(one, special=True).decode(errors="replace") for one in tokens]
        return tokens if "".join(pieces) == text else ()

    def _agreeing(
        self,
        draft: Sequence[int],
        sample: Callable[[int], tuple[int, TokenLogprob | None]],
        found: list[tuple[int, TokenLogprob | None]] | None = None,
    ) -> list[tuple[int, TokenLogprob | None]]:
        """Sample at each place until a token differs from the draft, ends the answer, or follows the whole draft."""
        found = [] if found is None else found
        for at, guessed in enumerate((*draft, None)):
            found.append(sample(at))
            token = found[-1][0]
            if token != guessed or self._context.model.ends(token):
                break
        return found
