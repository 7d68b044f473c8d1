"""Encoders for ONNX Runtime as hubs and folders hold them: the files of one, and its job.

Layout of sentence-transformers and Optimum: onnx/model.onnx, tokenizer.json, config.json, 1_Pooling/config.json.
"""

from __future__ import annotations

import json
from collections.abc import Container

from edgeserve.errors import StoreError
from edgeserve.jobs import Job

GRAPHS = ("onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx", "model_quantized.onnx")
"""Graphs, the preferred first. Sums of an int8 graph may be cut on x86 without VNNI."""
NEEDED = {"tokenizer": "tokenizer.json", "config": "config.json"}
POOLING = "1_Pooling/config.json"
RANKS = "ForSequenceClassification"
"""End of the architecture's name of a cross-encoder (transformers)."""


def files(names: Container[str]) -> dict[str, str]:
    """Paths by role among these; empty where they hold no encoder."""
    graph = next((name for name in GRAPHS if name in names), None)
    if graph is None or any(name not in names for name in NEEDED.values()):
        return {}
    more = {"data": f"{graph}_data", "pooling": POOLING}
    return {"model": graph, **NEEDED, **{role: name for role, name in more.items() if name in names}}


def job_of(config: bytes, where: object) -> Job:
    """The job by the text of config.json. Raises StoreError."""
    try:
        architectures = json.loads(config)["architectures"]
        ranks = any(str(name).endswith(RANKS) for name in architectures)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(
            f"config.json of {where} names no architecture ({error!r}); expected a transformer's"
        ) from None
    return "rerank" if ranks else "embedding"
