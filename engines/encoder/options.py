"""Options of encoders on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.errors import ConfigError
from edgeserve.settings import Reader, key, key_names


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """Keys of [embedding] and [rerank] in models.toml that a model on ONNX Runtime has.

    They mean what the same keys of llama.cpp's engines mean (engines/llama/options.py). ``context`` 0: all positions
    that the model knows.
    """

    context: int = key(2048, low=64, special={0: "all that the model knows"})
    pooling: Literal["auto", "mean", "cls", "last"] = key("auto", only=("embedding",))


def read_options(job: str, given: Mapping[str, object]) -> EncoderOptions:
    """The options of a job's table in models.toml. Raises ConfigError naming the key."""
    known = key_names(EncoderOptions, job)
    for name in given:
        if name not in known:
            text = (
                f"[{job}] {name} has no effect on a model of ONNX Runtime, which has {' and '.join(known)}; remove it"
            )
            raise ConfigError(text, param=name)
    return EncoderOptions(**Reader().read(EncoderOptions, job, given))
