"""One engine in a process confined for it: up to hot, an answer, down, and up and down once more.

    python -m support.confined_engine '{"job": "llm", "engine": "module:Class", "files": {…}, "input": PATH, …}'

Prints a JSON object: the answer, the layers that are off, and the lines that were logged as warnings or worse.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.messages import (
    ChatRequest,
    EmbedRequest,
    ImagePart,
    Message,
    Pcm,
    RerankRequest,
    Sampling,
    SpeakRequest,
    TextPart,
    TranscribeRequest,
)
from edgeserve.processes.allowed import engine_confinement
from edgeserve.system.confinement import confine


def answer(engine: Any, job: str, given: bytes) -> object:
    """Text, or bytes of sound, for the input."""
    cancel = threading.Event()
    if job == "tts":
        return sum(len(event.pcm) for event in engine.speak(SpeakRequest(given.decode()), cancel))
    if job == "asr":
        events = engine.transcribe(TranscribeRequest(Pcm(given)), cancel)
        return "".join(getattr(event, "text", "") for event in events)
    if job == "rerank":
        request = RerankRequest("cat sofa", tuple(given.decode().split("\n")))
        return sum(event.tokens for event in engine.rerank(request, cancel))
    if job == "embedding":
        return sum(event.tokens for event in engine.embed(EmbedRequest((given.decode(),)), cancel))
    parts = (ImagePart(given), TextPart("Describe this image.")) if job == "vision" else (TextPart(given.decode()),)
    talk = ChatRequest((Message("user", parts),), max_tokens=8, sampling=Sampling(temperature=0.0))
    return "".join(getattr(event, "text", "") for event in engine.chat(talk, cancel))


def main(given: Mapping[str, Any]) -> None:
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    files = {role: Path(path) for role, path in given["files"].items()}
    job, data = given["job"], Path(given["input"]).read_bytes()
    module, _, name = given["engine"].partition(":")
    spec = ModelSpec(job, job, given["engine"], files, threads=2, options=given.get("options", {}))
    engine = getattr(importlib.import_module(module), name)(spec)
    confined = confine(engine_confinement(engine))
    answers = []
    for _ in range(2):
        engine.open()
        engine.heat()
        answers.append(answer(engine, job, data))
        engine.park()
        engine.close()
    print(json.dumps({"answers": answers, "off": list(confined.off), "lines": lines}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
