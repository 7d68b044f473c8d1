"""Limits on the work for each token of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.openai import sampling
from edgeserve.api.openai.ending import MAX_STOP
from edgeserve.api.openai.sampling import Sampled
from edgeserve.errors import InvalidRequest


def read(**fields: Any) -> Sampled:
    return Sampled(Fields(fields), Limits())


def test_biases_and_stops_within_their_limits_are_read() -> None:
    biases = {str(token): 1 for token in range(sampling.MAX_BIASES)}
    assert len(read(logit_bias=biases).sampling().logit_bias) == sampling.MAX_BIASES
    assert read(stop=["", "x" * MAX_STOP]).stops() == ("x" * MAX_STOP,)


def test_more_of_them_are_refused() -> None:
    biases = {str(token): 1 for token in range(sampling.MAX_BIASES + 1)}
    with pytest.raises(InvalidRequest, match="has 1025 entries; the limit is 1024"):
        read(logit_bias=biases)
    with pytest.raises(InvalidRequest, match="has 501 characters; the limit is 500"):
        read(stop="x" * 501)
