"""The job of a model file, by its header."""

from __future__ import annotations

from pathlib import Path

import gguf
from support.cases import each
from support.tiny_bert import HEAD, write_bert
from support.tiny_gguf import write_model
from support.tiny_qwen import write_qwen

from edgeserve.engines.llama.purpose import has_head, job_of


@each(
    ("pooling", "head", "job"),
    [
        (gguf.PoolingType.RANK, tuple(HEAD), "rerank"),
        (None, ("cls.output.weight",), "rerank"),
        (gguf.PoolingType.MEAN, (), "embedding"),
        (None, (), "embedding"),
    ],
)
def test_the_job_of_an_encoder(
    tmp_path: Path, pooling: gguf.PoolingType | None, head: tuple[str, ...], job: str
) -> None:
    path = write_bert(tmp_path / "m.gguf", pooling, head=head)
    assert (job_of(path), has_head(path)) == (job, bool(head))


def test_a_chat_model_and_a_file_that_cannot_be_read_are_for_chat(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(3000))
    assert (job_of(write_model(tmp_path / "chat.gguf", "llama")), job_of(damaged)) == ("llm", "llm")


def test_a_ranking_head_on_a_decoder(tmp_path: Path) -> None:
    assert job_of(write_qwen(tmp_path / "m.gguf")) == "rerank"
