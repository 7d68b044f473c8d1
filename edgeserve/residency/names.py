"""Names of models as clients write them: with a provider, with a tag, or of a model that only a cloud has."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from edgeserve.jobs import CHAT, Job

LATEST = ":latest"
"""The tag that Ollama's clients add to a name."""
FAMILIES: tuple[tuple[tuple[Job, ...], tuple[str, ...]], ...] = (
    (("asr",), ("*whisper*", "*transcribe*")),
    (("tts",), ("tts-*", "*-tts", "*-tts-*", "kokoro*", "piper*")),
    (("rerank",), ("*rerank*",)),
    (("embedding", *CHAT), ("*embed*",)),
    (CHAT, ("gpt-*", "chatgpt-*", "claude-*", "gemini-*", "o[134]", "o[134]-*")),
)
"""Jobs of well-known models that run elsewhere, by patterns of their names. The first family that fits counts."""


def spellings(name: str) -> Iterator[str]:
    """The name, then without its providers ("openai/", "hosted_vllm/org/"), each also without ``LATEST``."""
    whole = name.strip()
    shorter = (whole, whole.partition("/")[2], whole.rpartition("/")[2])
    for one in dict.fromkeys(filter(None, shorter)):
        yield one
        if one.lower().endswith(LATEST) and len(one) > len(LATEST):
            yield one[: -len(LATEST)]


def jobs_of(name: str) -> tuple[Job, ...]:
    """Jobs that a well-known model of this name does elsewhere, the best first; none for any other name."""
    short = name.strip().lower().rpartition("/")[2]
    for jobs, patterns in FAMILIES:
        if any(fnmatch.fnmatchcase(short, one) for one in patterns):
            return jobs
    return ()
