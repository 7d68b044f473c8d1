"""Options of encoders on ONNX Runtime."""

from __future__ import annotations

import pytest

from edgeserve.engines.encoder.options import EncoderOptions, read_options
from edgeserve.engines.llama.options import LlamaOptions
from edgeserve.errors import ConfigError
from edgeserve.settings import key_names


def test_a_key_of_llama_cpp_alone_is_refused_with_those_that_count() -> None:
    with pytest.raises(ConfigError, match=r"\[rerank\] gpu_layers has no effect on a model of ONNX Runtime") as caught:
        read_options("rerank", {"gpu_layers": 3})
    assert caught.value.param == "gpu_layers"
    with pytest.raises(ConfigError, match="pooling has no effect"):
        read_options("rerank", {"pooling": "cls"})


@pytest.mark.parametrize("given", [{"context": 3}, {"context": "x"}, {"pooling": "max"}])
def test_values_are_checked(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        read_options("embedding", given)


@pytest.mark.parametrize("table", ["embedding", "rerank"])
def test_keys_have_the_names_and_defaults_of_llama_cpps_engines(table: str) -> None:
    assert set(key_names(EncoderOptions, table)) <= set(key_names(LlamaOptions, table))
    for name in set(key_names(EncoderOptions, table)) - {"context"}:  # where llama.cpp's engines depend on the job
        assert getattr(EncoderOptions(), name) == getattr(LlamaOptions(), name)
