"""Texts as fake models read and answer them. For ``read_text`` each character is a token, by its number."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence

from edgeserve.errors import InvalidRequest
from edgeserve.messages import Candidate, ChatRequest, TextEvent, TextRequest, TokenLogprob, ToolCall

BOS = 1
"""Number of the token that begins a text."""
CHARACTERS = 0x110000
BINS = 8
"""Numbers of a vector."""


class Ready:
    """A prepared request. It is ``Prompted``."""

    def __init__(self, prompt: str) -> None:
        self.prompt_tokens = len(prompt.split())


def read_text(request: TextRequest, prompt: str, context: int) -> TextEvent:
    """The answer to a request. ``prompt``: of its conversation. Raises InvalidRequest for a token that is none."""
    if request.chat is None and request.text is None:
        if unknown := [token for token in request.tokens if not 0 <= token < CHARACTERS]:
            raise InvalidRequest(f"token {unknown[0]} is not in the vocabulary of {CHARACTERS} tokens", param="tokens")
        joined = "".join(map(chr, request.tokens))
        return TextEvent(joined.encode(errors="replace").decode(), request.tokens, context=context)
    text = prompt if request.chat is not None else request.text or ""
    tokens = (*((BOS,) if request.add_special else ()), *map(ord, text))
    pieces = tuple(chr(token).encode() for token in tokens) if request.pieces else ()
    return TextEvent(prompt if request.chat is not None else "", tokens, pieces, context)


def calls_in(request: ChatRequest) -> list[ToolCall]:
    """Calls of the tools that the last message of the user names, with the JSON in it as arguments."""
    said, choice = request.messages[-1] if request.messages else None, request.tool_choice
    if said is None or said.role != "user" or not request.tools:
        return []
    arguments = json_in(said.text)
    named = [tool.name for tool in request.tools if tool.name in said.text.split()]
    if (choice.required and not named) or choice.name is not None:
        named = [choice.name or request.tools[0].name]
    return [ToolCall(name, arguments) for name in (named if choice.parallel else named[:1])]


def json_in(text: str) -> str:
    """The JSON object in a text; an empty object where the text has none."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else "{}"


def words_of(prompt: str | tuple[int, ...]) -> str:
    """The text of a prompt; a prompt of tokens becomes their numbers."""
    return prompt if isinstance(prompt, str) else " ".join(map(str, prompt))


def logprob(token: str, alternatives: int) -> TokenLogprob:
    """Each alternative is half as likely as the one before; the token itself is the first."""
    texts = [token, *(f" other{number}" for number in range(1, alternatives))]
    ranked = [Candidate(text.encode(), -math.log(2) * rank) for rank, text in enumerate(texts, start=1)]
    return TokenLogprob(ranked[0], tuple(ranked[:alternatives]))


def vector(words: Sequence[str]) -> bytes:
    """The counts of the words, by their checksums, at length 1: float32."""
    bins = [0] * BINS
    for word in words:
        bins[zlib.crc32(word.encode()) % BINS] += 1
    return struct.pack(f"<{BINS}f", *(one / (math.hypot(*bins) or 1.0) for one in bins))
