"""Samples the tokens of one answer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from edgeserve.engines.llama.chain import biases, samplers
from edgeserve.engines.llama.endings import Endings
from edgeserve.engines.llama.forced import NOTHING, Ahead
from edgeserve.engines.llama.options import LlamaOptions
from edgeserve.engines.llama.penalties import WINDOW, Penalties
from edgeserve.engines.llama.runtime import llama
from edgeserve.errors import InvalidRequest
from edgeserve.messages import ChatRequest

if TYPE_CHECKING:
    from edgeserve.engines.llama.constraint import Constraint
    from edgeserve.engines.llama.grammar import Written


def _constraint(request: ChatRequest, grammar: Written, vocabulary: Any, stopped: threading.Event | None) -> Constraint:
    from edgeserve.engines.llama.own_constraint import constraint  # a worker is ready before it needs this

    field = "response_format" if request.shaped and not request.tool_choice.required else "tools"
    return constraint(grammar, vocabulary, field, stopped or threading.Event())


class Sampler:
    """Biases, penalties, llama.cpp's sampler chain and an optional grammar. Free it after the answer.

    Raises InvalidRequest for a bias on a token that does not exist, and for a grammar that llama.cpp cannot use.
    ``stopped``: set once the answer has ended, so that work on a client's grammar ends, too.
    See docs/decisions/0011-what-llama-cpp-aborts-on.md for the requests on which llama.cpp would abort, and the guards.
    """

    def __init__(
        self,
        request: ChatRequest,
        options: LlamaOptions,
        vocabulary: Any,
        grammar: Written | None = None,
        endings: Sequence[int] = (),
        stopped: threading.Event | None = None,
    ) -> None:
        runtime = llama()
        self._size = int(runtime.llama_vocab_n_tokens(vocabulary))
        self._penalties = self._make_penalties(request, options, free=grammar is None)
        # The grammar comes first: when llama.cpp refuses it, nothing else is left to free.
        self._check_tokens(endings, "stop_token_ids")
        self._endings = Endings(endings, None if request.ignore_eos else request.min_tokens)
        self._constraint = None if grammar is None else _constraint(request, grammar, vocabulary, stopped)
        self.chain = runtime.llama_sampler_chain_init(runtime.llama_sampler_chain_default_params())
        if self._penalties is None and request.sampling.logit_bias:
            runtime.llama_sampler_chain_add(self.chain, biases(request.sampling.logit_bias, self._size))
        for one in samplers(request.sampling, options, self._size):
            runtime.llama_sampler_chain_add(self.chain, one)

    @property
    def constrained(self) -> bool:
        """Whether a grammar constrains the answer, so that a token may take long."""
        return self._constraint is not None

    def sample(self, context: Any, output: int) -> int:
        """Sample a token of free text by the logits at index ``output`` of the last call."""
        return self._penalised(
            lambda: llama().llama_get_logits_ith(context, output),
            lambda: int(llama().llama_sampler_sample(self.chain, context, output)),
        )

    def sample_constrained(self, logits: Any) -> int:
        """Sample a token that the grammar allows, by a copy of the logits. Any thread."""
        constraint = self._constraint
        if constraint is None:
            raise RuntimeError("the answer has no grammar")
        try:
            return self._penalised(lambda: logits, lambda: constraint.sample(self.chain, logits))
        except InvalidRequest:
            if not self._endings.forbidden:
                raise
            self._endings = Endings((), 0)  # the grammar allows nothing but the end
            return self._penalised(lambda: logits, lambda: constraint.sample(self.chain, logits))

    def ahead(self) -> Ahead:
        """Text that alone can come next. Any thread, as ``sample_constrained``."""
        if self._constraint is None or self._endings.forbidden:  # a forced token may be a forbidden one
            return NOTHING
        return self._constraint.ahead()

    def accept(self, tokens: Sequence[int]) -> None:
        """Go on behind tokens that the grammar forces, as if they were sampled."""
        for token in tokens:
            if self._constraint is not None:
                self._constraint.accept(token)
            llama().llama_sampler_accept(self.chain, token)
            if self._penalties is not None:
                self._penalties.accept(token)
            self._endings.accept()

    def _penalised(self, logits: Callable[[], Any], choose: Callable[[], int]) -> int:
        if self._penalties is None and not self._endings.forbidden:
            return choose()
        found, penalties = logits(), self._penalties
        with penalties.applied(found) if penalties else contextlib.nullcontext(), self._endings.applied(found):
            token = choose()
        if penalties is not None:
            penalties.accept(token)
        self._endings.accept()
        return token

    def free(self) -> None:
        llama().llama_sampler_free(self.chain)
        if self._constraint is not None:
            self._constraint.free()

    def _make_penalties(self, request: ChatRequest, options: LlamaOptions, *, free: bool) -> Penalties | None:
        """None where llama.cpp's chain does it all. ``free``: no grammar looks at the logits before the chain."""
        wanted = request.sampling
        self._check_tokens((token for token, _ in wanted.logit_bias), "logit_bias")
        repeat = options.repeat_penalty if wanted.repeat_penalty is None else wanted.repeat_penalty
        frequency, presence = wanted.frequency_penalty or 0.0, wanted.presence_penalty or 0.0
        neutral = repeat == 1 and not frequency and not presence
        if neutral and (free or not wanted.logit_bias):
            return None
        window = 0 if neutral else WINDOW if wanted.repeat_last_n is None else wanted.repeat_last_n
        return Penalties(wanted.logit_bias, repeat, frequency, presence, None if window < 0 else window)

    def _check_tokens(self, tokens: Iterable[int], param: str) -> None:
        for token in tokens:
            if not 0 <= token < self._size:
                text = f"token {token} is not in the vocabulary of {self._size} tokens"
                raise InvalidRequest(text, param=param)
