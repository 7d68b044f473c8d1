"""Hooks of schemathesis, which imports this module. See schemathesis.toml and conformance.py beside it."""

from __future__ import annotations

import atexit
import io
import json
import os
import urllib.error
import urllib.request
import wave
from collections import Counter, deque
from pathlib import Path
from typing import Any

import schemathesis
from benchmarks.fuzz import beyond
from hypothesis import strategies as some

MOST_SESSIONS = 4
"""Live sessions that stay open. The server allows a client eight, and refuses the next one."""
START = "POST /v1/transcribe/stream"
SESSIONS: deque[str] = deque()
EXCUSED: Counter[str] = Counter()
"""Answers that were excused, by the reason of the rule."""
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001"
    "48afa4710000000049454e44ae426082"
)
SAMPLES = bytes(6400)


def wav() -> bytes:
    """A tenth of a second of silence."""
    with io.BytesIO() as file:
        with wave.open(file, "wb") as written:
            written.setparams((1, 2, 16_000, 0, "NONE", ""))
            written.writeframes(bytes(3200))
        return file.getvalue()


schemathesis.openapi.media_type("audio/wav", some.just(wav()))
schemathesis.openapi.media_type("image/png", some.just(PNG))
schemathesis.openapi.media_type("application/octet-stream", some.sampled_from([SAMPLES, SAMPLES[:4], b"abc"]))


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Whether the failure is a fault."""
    media = response.request.headers.get("Content-Type", "")
    media = media.decode("latin-1") if isinstance(media, bytes) else media
    line = beyond.answer(media, response.status_code, response.content, failure.message)
    found = [one for check in failure.checks if (one := beyond.rule(check, case.operation.label, line))]
    EXCUSED.update(one.reason for one in found)
    return not found


@atexit.register
def tell() -> None:
    """Write ``EXCUSED`` into the file that the starting process names."""
    Path(os.environ[beyond.EXCUSED]).write_text(json.dumps(EXCUSED), encoding="utf-8")


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """End the oldest live sessions."""
    if case.operation.label == START and response.status_code == 200:
        SESSIONS.append(json.loads(response.content)["session"])
    while len(SESSIONS) > MOST_SESSIONS:
        url = f"{case.operation.base_url.rstrip('/')}/v1/transcribe/stream/{SESSIONS.popleft()}"
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=10).close()
        except urllib.error.HTTPError as error:
            if error.code != 404:  # a link has ended it
                raise
