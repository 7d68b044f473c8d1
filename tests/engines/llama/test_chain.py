"""llama.cpp's samplers for one answer."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples

from edgeserve.engines.llama.chain import biases
from edgeserve.engines.llama.penalties import Penalties
from edgeserve.engines.llama.runtime import llama

VOCABULARY = 40
pairs = some.tuples(some.integers(0, VOCABULARY - 1), some.floats(-100, 100, width=32))


@given(some.lists(pairs, min_size=1, max_size=8), some.integers(0, 2**32))
@examples(60)
def test_biases_in_the_chain_are_those_in_the_logits(wanted: list[tuple[int, float]], seed: int) -> None:
    logits = numpy.random.default_rng(seed).normal(0, 5, VOCABULARY).astype(numpy.float32)
    found = applied(biases(wanted, VOCABULARY), logits)
    with Penalties(wanted, 1.0, 0.0, 0.0).applied(logits):
        numpy.testing.assert_allclose(found, logits, rtol=1e-6)


def test_a_biased_token_is_not_sampled() -> None:
    logits = numpy.arange(VOCABULARY, dtype=numpy.float32)
    found = applied(biases([(VOCABULARY - 1, -100.0)], VOCABULARY), logits)
    assert int(found.argmax()) == VOCABULARY - 2
    assert found[:-1].tolist() == pytest.approx(logits[:-1].tolist())


def applied(sampler: Any, logits: Any) -> Any:
    runtime = llama()
    rows = (runtime.llama_token_data * VOCABULARY)(
        *(runtime.llama_token_data(token, float(logit), 0.0) for token, logit in enumerate(logits))
    )
    array = runtime.llama_token_data_array(rows, VOCABULARY, -1, False)
    runtime.llama_sampler_apply(sampler, ctypes.byref(array))
    runtime.llama_sampler_free(sampler)
    return numpy.array([row.logit for row in rows], numpy.float32)
