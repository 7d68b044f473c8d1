"""The part of a request that decides its node, read from the beginning of the request.

A node reads the request again, and strictly. A request that cannot be read here goes to any node, which refuses it with
its own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs

from edgeserve.api.json_body import read_object
from edgeserve.cluster.affinity import digests
from edgeserve.dataclass import dataclass
from edgeserve.errors import InvalidRequest
from edgeserve.jobs import CHAT, Job
from edgeserve.residency.names import spellings

JOBS: tuple[tuple[str, tuple[Job, ...]], ...] = (
    ("transcri", ("asr",)),
    ("translations", ("asr",)),
    ("realtime", ("asr",)),
    ("speech", ("tts",)),
    ("tts", ("tts",)),
    ("embed", ("embedding", *CHAT)),
    ("rerank", ("rerank", "embedding")),
    ("score", ("rerank", "embedding")),
    ("vision", ("vision",)),
)
"""Jobs of routes by a part of their path, the first that fits. All other routes chat."""
CONVERSATION = ("messages", "input", "prompt")
"""Fields with the text of a conversation, or with the list of its messages."""
FORM_FIELD = re.compile(rb'name="model"\s*\r\n\r\n([^\r\n]{1,200})\r\n')
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Question:
    """One request, as far as its node depends on it. Small, and sent between processes.

    ``names``: the model in all spellings, as written first; empty for the default. ``conversation``: digests of its
    beginnings. ``client``: the network that asks.
    """

    names: tuple[str, ...] = ()
    jobs: tuple[str, ...] = CHAT
    conversation: tuple[bytes, ...] = ()
    client: str = ""


def read_question(path: str, query: bytes = b"", media: str = "", body: bytes = b"") -> Question:
    """Never raises. ``media``: the type of the body; ``body``: its beginning, or all of it."""
    kind = media.partition(";")[0].strip().lower()
    fields: Mapping[str, Any] = {}
    if kind == "multipart/form-data":
        found = FORM_FIELD.search(body)
        fields = {"model": found[1].decode("utf-8", "replace")} if found else {}
    elif body:
        fields = _object(body)
    model = fields.get("model") or next(iter(parse_qs(query.decode("latin-1")).get("model", ())), "")
    name = model if isinstance(model, str) and len(model) <= LONGEST_NAME else ""
    return Question(tuple(spellings(name)), _jobs(path), digests(name, tuple(_messages(fields))))


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        return dict(read_object(body).items())
    except InvalidRequest:
        return {}


def _jobs(path: str) -> tuple[Job, ...]:
    return next((jobs for part, jobs in JOBS if part in path), CHAT)


def _messages(fields: Mapping[str, Any]) -> Iterator[Any]:
    for field in ("instructions", "system"):
        if field in fields:
            yield fields[field]
    for field in CONVERSATION:
        value = fields.get(field)
        if isinstance(value, list):
            yield from value
        elif isinstance(value, str):
            yield value
