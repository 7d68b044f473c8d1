"""Samples the tokens of one answer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from edgeserve.errors import InvalidRequest
from edgeserve.messages import ChatRequest
from engines.llama.constraint import Constraint
from engines.llama.forced import NOTHING, Ahead
from engines.llama.options import LlamaOptions
from engines.llama.penalties import Penalties
from engines.llama.runtime import llama

COLDEST = 1e-6
"""Lower temperatures sample greedily: logits divided by them overflow a float and become NaN."""


class Sampler:
    """Biases, penalties, llama.cpp's sampler chain and an optional grammar. Free it after the answer.

    Raises InvalidRequest for a bias on a token that does not exist, and for a grammar that llama.cpp cannot use.
    See docs/decisions/0011-what-llama-cpp-aborts-on.md for the requests on which llama.cpp would abort, and the guards.
    """

    def __init__(
        self, request: ChatRequest, options: LlamaOptions, vocabulary: Any, grammar: str | None = None
    ) -> None:
        runtime = llama()
        self._size = int(runtime.llama_vocab_n_tokens(vocabulary))
        self._penalties = self._make_penalties(request, options)
        # The grammar comes first: when llama.cpp refuses it, nothing else is left to free.
        shaped = request.json_object or request.json_schema is not None
        field = "response_format" if shaped and not request.tool_choice.required else "tools"
        self._constraint = None if grammar is None else Constraint(grammar, vocabulary, field)
        self.chain = runtime.llama_sampler_chain_init(runtime.llama_sampler_chain_default_params())
        for one in _samplers(request, options):
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
        return self._penalised(lambda: logits, lambda: constraint.sample(self.chain, logits))

    def ahead(self) -> Ahead:
        """Text that alone can come next. Any thread, as ``sample_constrained``."""
        return self._constraint.ahead() if self._constraint is not None else NOTHING

    def accept(self, tokens: Sequence[int]) -> None:
        """Go on behind tokens that the grammar forces, as if they were sampled."""
        for token in tokens:
            if self._constraint is not None:
                self._constraint.accept(token)
            llama().llama_sampler_accept(self.chain, token)
            if self._penalties is not None:
                self._penalties.accept(token)

    def _penalised(self, logits: Callable[[], Any], choose: Callable[[], int]) -> int:
        if self._penalties is None:
            return choose()
        with self._penalties.applied(logits()):
            token = choose()
        self._penalties.accept(token)
        return token

    def free(self) -> None:
        llama().llama_sampler_free(self.chain)
        if self._constraint is not None:
            self._constraint.free()

    def _make_penalties(self, request: ChatRequest, options: LlamaOptions) -> Penalties | None:
        wanted = request.sampling
        for token, _ in wanted.logit_bias:
            if not 0 <= token < self._size:
                text = f"token {token} is not in the vocabulary of {self._size} tokens"
                raise InvalidRequest(text, param="logit_bias")
        repeat = _or(wanted.repeat_penalty, options.repeat_penalty)
        frequency, presence = wanted.frequency_penalty or 0.0, wanted.presence_penalty or 0.0
        if repeat == 1 and not frequency and not presence and not wanted.logit_bias:
            return None
        return Penalties(wanted.logit_bias, repeat, frequency, presence)


def _samplers(request: ChatRequest, options: LlamaOptions) -> list[Any]:
    runtime, wanted = llama(), request.sampling
    temperature = _or(wanted.temperature, options.temperature)
    if not temperature >= COLDEST:
        return [runtime.llama_sampler_init_greedy()]
    seed = wanted.seed if wanted.seed is not None else secrets.randbits(32)
    return [
        runtime.llama_sampler_init_top_k(int(_or(wanted.top_k, options.top_k))),
        runtime.llama_sampler_init_top_p(_or(wanted.top_p, options.top_p), 1),
        runtime.llama_sampler_init_min_p(_or(wanted.min_p, options.min_p), 1),
        runtime.llama_sampler_init_temp(temperature),
        runtime.llama_sampler_init_dist(seed & 0xFFFFFFFF),
    ]


def _or(given: float | None, default: float) -> float:
    return default if given is None else given
