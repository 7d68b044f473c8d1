"""The job that a model file was made for, by its header."""

from __future__ import annotations

from pathlib import Path

from edgeserve.engines.llama.gguf import Contents, read_contents
from edgeserve.errors import EngineFailure
from edgeserve.jobs import Job

HEAD, JINA_HEAD, JINA = "cls.output.weight", "cls.weight", "jina-bert-v2"
"""Tensor that ends a ranking head, in most models and in Jina's first. Without it, llama.cpp gives the first number of
a row instead, and reports no error."""
POOLED = frozenset({1, 2, 3})
"""Mean, first and last row (llama.h, enum llama_pooling_type)."""


def job_of(path: Path) -> Job:
    """Reranking for a file with a ranking head, embedding for an encoder, else chat. Chat also for an unreadable file:
    the engine reports it when it opens."""
    try:
        file = read_contents(path)
    except EngineFailure:
        return "llm"
    architecture = file.header.get("general.architecture")
    if _ranks(file):
        return "rerank"
    pooled = file.header.get(f"{architecture}.pooling_type") in POOLED
    return "embedding" if pooled or file.header.get(f"{architecture}.attention.causal") is False else "llm"


def has_head(path: Path) -> bool:
    """Whether a model file has the last tensor of a ranking head. Raises EngineFailure naming the file."""
    return _ranks(read_contents(path))


def _ranks(file: Contents) -> bool:
    return (JINA_HEAD if file.header.get("general.architecture") == JINA else HEAD) in file.tensors
