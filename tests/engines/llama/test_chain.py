"""llama.cpp's samplers for one answer."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples

from edgeserve.engines.llama.chain import biases, samplers
from edgeserve.engines.llama.options import LlamaOptions
from edgeserve.engines.llama.penalties import Penalties
from edgeserve.engines.llama.runtime import llama
from edgeserve.messages import Sampling

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


COLD = some.sampled_from([0.0, 5e-324, 1e-46, 1e-40, 1e-30, 1e-7, 1e-6, 1.1e-6]) | some.floats(0, 100)


@given(COLD, some.none() | COLD | some.just(100.0), some.floats(30, 50), some.floats(5, 60))
@examples(150)
def test_no_temperature_makes_the_logits_infinite(
    temperature: float, spread: float | None, digits: float, ahead: float
) -> None:
    """A dynamic temperature comes down to its lowest, here of so many digits, when one token is far ``ahead``."""
    unlikely = math.exp(-ahead) / (1 + math.exp(-ahead))
    entropy = -unlikely * math.log(unlikely) - (1 - unlikely) * math.log1p(-unlikely)
    exponent = digits / -math.log10(entropy / math.log(2))
    wanted = Sampling(temperature, 1.0, 2, 0.0, dynatemp_range=spread, dynatemp_exponent=exponent, seed=1)
    runtime = llama()
    rows = (runtime.llama_token_data * VOCABULARY)(
        *(runtime.llama_token_data(token, ahead * (token == 7), 0.0) for token in range(VOCABULARY))
    )
    array = runtime.llama_token_data_array(rows, VOCABULARY, -1, False)
    chain = samplers(wanted, LlamaOptions(), VOCABULARY)
    for one in chain:
        runtime.llama_sampler_apply(one, ctypes.byref(array))
        runtime.llama_sampler_free(one)
    left = [array.data[at] for at in range(array.size)]
    assert 0 <= array.selected < len(left)
    assert all(math.isfinite(one.logit) or one.logit == -math.inf for one in left)
    assert all(0 <= one.p <= 1 for one in left)


def applied(sampler: Any, logits: Any) -> Any:
    runtime = llama()
    rows = (runtime.llama_token_data * VOCABULARY)(
        *(runtime.llama_token_data(token, float(logit), 0.0) for token, logit in enumerate(logits))
    )
    array = runtime.llama_token_data_array(rows, VOCABULARY, -1, False)
    runtime.llama_sampler_apply(sampler, ctypes.byref(array))
    runtime.llama_sampler_free(sampler)
    return numpy.array([row.logit for row in rows], numpy.float32)
