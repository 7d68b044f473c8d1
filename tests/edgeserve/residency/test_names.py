"""Names as clients write them."""

from __future__ import annotations

from support.cases import each

from edgeserve.jobs import CHAT, Job
from edgeserve.residency.names import jobs_of, spellings


@each(
    ("name", "read"),
    [
        ("", []),
        (" ", []),
        ("llm", ["llm"]),
        ("llm:latest", ["llm:latest", "llm"]),
        ("LLM:Latest", ["LLM:Latest", "LLM"]),
        (":latest", [":latest"]),
        ("openai/gpt-4o", ["openai/gpt-4o", "gpt-4o"]),
        ("a/b/c:latest", ["a/b/c:latest", "a/b/c", "b/c:latest", "b/c", "c:latest", "c"]),
        ("ends/", ["ends/"]),
        ("/begins", ["/begins", "begins"]),
    ],
)
def test_a_name_is_read_in_several_ways(name: str, read: list[str]) -> None:
    assert list(spellings(name)) == read


def test_a_name_of_slashes_has_few_readings() -> None:
    assert len(list(spellings("/".join("x" * 512)))) == 3


@each(
    ("name", "jobs"),
    [
        ("whisper-1", ("asr",)),
        ("Systran/faster-whisper-small", ("asr",)),
        ("gpt-4o-transcribe", ("asr",)),
        ("gpt-4o-mini-transcribe", ("asr",)),
        ("tts-1-hd", ("tts",)),
        ("gpt-4o-mini-tts", ("tts",)),
        ("text-embedding-3-small", ("embedding", *CHAT)),
        ("bge-reranker-v2-m3", ("rerank",)),
        ("GPT-4o", CHAT),
        ("openai/gpt-4.1-mini", CHAT),
        ("claude-sonnet-4-5", CHAT),
        ("o3-mini", CHAT),
        ("olmo", ()),
        ("mine", ()),
        ("", ()),
    ],
)
def test_a_well_known_name_says_its_job(name: str, jobs: tuple[Job, ...]) -> None:
    assert jobs_of(name) == jobs
