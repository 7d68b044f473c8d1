"""Biases and penalties in the logits: the same as llama.cpp's own samplers, and gone afterwards."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from edgeserve.engines.llama.penalties import WINDOW, Penalties

VOCABULARY = 40

tokens = st.integers(0, VOCABULARY - 1)
factors = st.floats(0.25, 4, width=32)
amounts = st.floats(-2, 2, width=32)
rules = st.tuples(st.lists(st.tuples(tokens, st.floats(-100, 100, width=32)), max_size=5), factors, amounts, amounts)


def _logits(seed: int) -> Any:
    return numpy.random.default_rng(seed).normal(0, 5, VOCABULARY).astype(numpy.float32)


@given(rules, st.lists(tokens, max_size=2 * WINDOW), st.integers(0, 2**32))
@examples(60)
def test_what_llama_cpp_makes_of_them(rule: tuple[Any, ...], said: list[int], seed: int) -> None:
    biases, *penalties = rule
    ours, logits = Penalties(biases, *penalties), _logits(seed)
    before = logits.copy()
    for token in said:
        ours.accept(token)
    with ours.applied(logits):
        numpy.testing.assert_allclose(logits, _by_llama_cpp(before, biases, penalties, said), rtol=1e-5, atol=1e-5)
    assert logits.tobytes() == before.tobytes()


def _by_llama_cpp(logits: Any, biases: list[tuple[int, float]], penalties: list[float], said: list[int]) -> Any:
    from edgeserve.engines.llama.runtime import llama

    runtime = llama()
    chain = runtime.llama_sampler_chain_init(runtime.llama_sampler_chain_default_params())
    rows = (runtime.llama_logit_bias * len(biases))(*(runtime.llama_logit_bias(*pair) for pair in biases))
    runtime.llama_sampler_chain_add(chain, runtime.llama_sampler_init_logit_bias(VOCABULARY, len(biases), rows))
    runtime.llama_sampler_chain_add(chain, runtime.llama_sampler_init_penalties(VOCABULARY, WINDOW, *penalties))
    for token in said:
        runtime.llama_sampler_accept(chain, token)
    data = (runtime.llama_token_data * VOCABULARY)(
        *(runtime.llama_token_data(token, float(logit), 0.0) for token, logit in enumerate(logits))
    )
    array = runtime.llama_token_data_array(data, VOCABULARY, -1, False)
    runtime.llama_sampler_apply(chain, ctypes.byref(array))
    runtime.llama_sampler_free(chain)
    return [row.logit for row in data]


def test_a_token_may_be_biased_twice_and_penalised() -> None:
    penalties, logits = Penalties([(3, 50.0), (3, 1.0)], 1.0, 0.0, 1.0), _logits(1)
    before = logits.copy()
    penalties.accept(3)
    with penalties.applied(logits):
        assert logits[3] == pytest.approx(before[3] + 50)
    assert logits.tobytes() == before.tobytes()
