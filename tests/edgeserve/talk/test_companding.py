from __future__ import annotations

import pytest

from edgeserve.talk import companding
from edgeserve.talk.companding import compress_a, compress_mu, compression, expand_a, expand_mu, expansion

LAWS = {"mu": (compress_mu, expand_mu), "a": (compress_a, expand_a)}


@pytest.mark.parametrize("law", LAWS)
def test_each_byte_comes_back_as_itself(law: str) -> None:
    compress, expand = LAWS[law]
    same = [code for code in range(256) if compress(expand(code)) != code]
    assert same == ([0x7F] if law == "mu" else [])  # µ-law has two zeros
    assert expand_mu(0x7F) == expand_mu(0xFF) == 0


@pytest.mark.parametrize("law", LAWS)
def test_a_sample_comes_back_within_a_step(law: str) -> None:
    compress, expand = LAWS[law]
    for sample in range(-32_768, 32_768, 37):
        assert abs(expand(compress(sample)) - sample) <= max(16, abs(sample) // 28)


def test_known_values_of_the_recommendation() -> None:
    assert [expand_mu(code) for code in (0x00, 0x80, 0xFF, 0x8F)] == [-32_124, 32_124, 0, 16_764]
    assert [expand_a(code) for code in (0xD5, 0x55, 0xAA, 0x2A)] == [8, -8, 32_256, -32_256]


@pytest.mark.parametrize("law", LAWS)
def test_the_tables_are_the_functions(law: str) -> None:
    compress, expand = LAWS[law]
    assert list(companding.expansion(law)) == [expand(code) for code in range(256)]
    samples = (0, 1, -1, 32_767, -32_768, 1_000)
    assert [compression(law)[one & 0xFFFF] for one in samples] == [compress(one) for one in samples]
    assert expansion(law) is expansion(law)
