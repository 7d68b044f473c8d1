"""llama.cpp's samplers for one answer: filters, temperature and the draw."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.engines.llama.options import LlamaOptions
from edgeserve.engines.llama.runtime import llama
from edgeserve.messages import Sampling

COLDEST = 1e-6
"""Lower temperatures sample greedily: logits divided by them overflow a float and become NaN."""
POSSIBLE = 1e-9
"""Least share of the likeliest token's probability. Some samplers take the logarithm of a probability, which must not
be 0."""
TAU, ETA, CONSIDERED = 5.0, 0.1, 100
"""llama.cpp's defaults of mirostat: its surprise, how fast it learns, and the tokens that version 1 considers."""
XTC_THRESHOLD = 0.1


def samplers(wanted: Sampling, options: LlamaOptions, size: int) -> list[Any]:
    """The samplers in the order of llama.cpp's server. ``size``: tokens of the vocabulary."""
    temperature = _or(wanted.temperature, options.temperature)
    if not temperature >= COLDEST:
        return [llama().llama_sampler_init_greedy()]
    seed = (wanted.seed if wanted.seed is not None else int.from_bytes(os.urandom(4))) & 0xFFFFFFFF
    if wanted.mirostat:
        return list(_mirostat(wanted, temperature, seed, size))
    return list(_filtered(wanted, options, temperature, seed))


def biases(wanted: Sequence[tuple[int, float]], size: int) -> Any:
    """A sampler that adds a number to the logits of some tokens. ``size`` as in ``samplers``."""
    runtime = llama()
    rows = (runtime.llama_logit_bias * len(wanted))(*wanted)
    return runtime.llama_sampler_init_logit_bias(size, len(wanted), rows)


def _filtered(wanted: Sampling, options: LlamaOptions, temperature: float, seed: int) -> Iterator[Any]:
    runtime = llama()
    if (wanted.top_n_sigma or 0.0) > 0:
        yield runtime.llama_sampler_init_top_n_sigma(wanted.top_n_sigma)
    yield runtime.llama_sampler_init_top_k(int(_or(wanted.top_k, options.top_k)))
    if wanted.typical_p is not None and wanted.typical_p < 1:
        yield runtime.llama_sampler_init_min_p(POSSIBLE, 1)
        yield runtime.llama_sampler_init_typical(wanted.typical_p, 1)
    yield runtime.llama_sampler_init_top_p(_or(wanted.top_p, options.top_p), 1)
    yield runtime.llama_sampler_init_min_p(_or(wanted.min_p, options.min_p), 1)
    if wanted.xtc_probability:
        yield runtime.llama_sampler_init_xtc(wanted.xtc_probability, _or(wanted.xtc_threshold, XTC_THRESHOLD), 1, seed)
    yield _temperature(wanted, temperature)
    yield runtime.llama_sampler_init_dist(seed)


def _temperature(wanted: Sampling, temperature: float) -> Any:
    if not wanted.dynatemp_range:
        return llama().llama_sampler_init_temp(temperature)
    # The coldest that it may become, also after llama.cpp rounded both numbers to floats of seven digits.
    spread = min(wanted.dynatemp_range, temperature * (1 - COLDEST) - COLDEST)
    return llama().llama_sampler_init_temp_ext(temperature, spread, _or(wanted.dynatemp_exponent, 1.0))


def _mirostat(wanted: Sampling, temperature: float, seed: int, size: int) -> Iterator[Any]:
    """Mirostat (Basu et al., ICLR 2021) in version 1 or 2, which also draws the token."""
    runtime = llama()
    tau, eta = _or(wanted.mirostat_tau, TAU), _or(wanted.mirostat_eta, ETA)
    yield runtime.llama_sampler_init_min_p(POSSIBLE, 1)
    yield runtime.llama_sampler_init_temp(temperature)
    if wanted.mirostat == 1:
        yield runtime.llama_sampler_init_mirostat(size, seed, tau, eta, CONSIDERED)
    else:
        yield runtime.llama_sampler_init_mirostat_v2(seed, tau, eta)


def _or(given: float | None, default: float) -> float:
    return default if given is None else given
