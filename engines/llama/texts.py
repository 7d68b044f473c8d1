"""Texts as a model reads them: text cut into tokens, tokens joined, conversations as prompts. No answer, no slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.tokenizer import MOST_TEXT, TooLong
from edgeserve.errors import TooLarge
from edgeserve.messages import TextEvent, TextRequest

MOST = 1 << 19
"""Tokens that one answer returns. A character may be three of them; each takes some 100 bytes of memory."""


def read_text(model: MappedModel, request: TextRequest, render: Callable[[], str], context: int) -> TextEvent:
    """The answer to a request. Any thread that holds the model. ``render``: the prompt of the conversation.

    Raises InvalidRequest for an unknown token, half a character, and a template that refuses the conversation.
    Raises TooLarge for more than MOST tokens, or MOST_TEXT characters.
    """
    if request.chat is not None:
        return _told(model, render(), request, context)
    if request.text is not None:
        return _told(model, request.text, request, context)
    tokens = model.read(request.tokens, param="tokens")
    joined = b"".join(model.piece(token, special=True) for token in tokens)
    return TextEvent(joined.decode(errors="replace"), tuple(tokens), context=context)


def _told(model: MappedModel, text: str, request: TextRequest, context: int) -> TextEvent:
    param = "text" if request.chat is None else "messages"
    if len(text) > MOST_TEXT:
        raise TooLarge(
            f"the text has {len(text):,} characters; the limit is {MOST_TEXT:,} at a time: send it in parts",
            param=param,
        )
    try:
        tokens: Sequence[int] = model.tokenizer.tokenize(
            text, add_special=request.add_special, parse_special=request.parse_special, most=MOST
        )
    except TooLong as error:
        raise TooLarge(
            f"the text is {error} tokens long; the limit is {MOST:,} at a time: send it in parts",
            param=param,
        ) from None
    pieces = tuple(model.piece(token, special=True) for token in tokens) if request.pieces else ()
    return TextEvent(text if request.chat is not None else "", tuple(tokens), pieces, context)
