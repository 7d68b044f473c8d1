"""Texts as fake models read them: each character is a token, whose number is that of the character."""

from __future__ import annotations

from edgeserve.errors import InvalidRequest
from edgeserve.messages import TextEvent, TextRequest

BOS = 1
"""Number of the token that begins a text."""
CHARACTERS = 0x110000


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
