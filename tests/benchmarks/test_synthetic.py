"""Shapes of synthetic models: their sizes are those of the published models."""

from __future__ import annotations

import pytest
from benchmarks.synthetic import SHAPES

PUBLISHED = {"llama-3.2-1b": 1.236e9, "qwen3-0.6b": 0.596e9, "qwen3-1.7b": 1.721e9, "gemma-3-1b": 1.000e9}
"""Parameters by the cards of the models, shared ones once."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_shape_has_the_parameters_of_its_model(name: str) -> None:
    shape = SHAPES[name]
    layer = sum(rows * columns for rows, columns in shape.matrices.values()) + sum(shape.norms.values())
    total = shape.words * shape.width + shape.width + shape.layers * layer
    assert total == pytest.approx(PUBLISHED[name], rel=0.01)


def test_each_architecture_has_its_norms() -> None:
    assert set(SHAPES["llama-3.2-1b"].norms) == {"attn_norm", "ffn_norm"}
    assert set(SHAPES["qwen3-0.6b"].norms) == {"attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"}
    assert {"post_attention_norm", "post_ffw_norm"} < set(SHAPES["gemma-3-1b"].norms)
