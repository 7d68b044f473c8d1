"""The field ``context`` of generate: a conversation as a list of whole numbers, which the client sends back.

Ollama puts tokens into the list. Clients only keep them, so the list here holds the conversation itself: ``MARK``, the
bytes of its JSON, and the bytes in numbers of three. The next prompt then takes the way of any conversation, template
and prompt cache included.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from edgeserve import strict_json
from edgeserve.api.fields import Fields
from edgeserve.api.json_body import MAX_VALUES
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Role

MARK = 0x65647365
"""The first number: "edse". No tokenizer has so many tokens, so this server recognises lists of Ollama's own."""
WIDTH = 3
LONGEST = MAX_VALUES // 2
"""Numbers of a list. The answer leaves a longer conversation out: no request could bring it back."""
ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}

Turn = tuple[Role, str]


def written(turns: Sequence[Turn]) -> list[int]:
    """The conversation as numbers; none for one that is too long."""
    data = json.dumps(turns, ensure_ascii=False, separators=(",", ":")).encode()
    if len(data) > WIDTH * (LONGEST - 2):
        return []
    parts = (data[at : at + WIDTH] for at in range(0, len(data), WIDTH))
    return [MARK, len(data), *(int.from_bytes(part.ljust(WIDTH, b"\0"), "little") for part in parts)]


def turns_in(numbers: Sequence[int]) -> list[Turn]:
    """The conversation. Raises ValueError for numbers that ``written`` did not make."""
    if len(numbers) < 3 or numbers[0] != MARK or len(numbers) > LONGEST:
        raise ValueError("no list of this server")
    data = b"".join(number.to_bytes(WIDTH, "little") for number in numbers[2:])
    size = numbers[1]
    if not 0 <= len(data) - size < WIDTH:
        raise ValueError("a list that was cut")
    return [(ROLES[role], text) for role, text in strict_json.loads(data[:size].decode()) if isinstance(text, str)]


class ContextField(Field[tuple[Turn, ...]]):
    """``context``."""

    def __init__(self) -> None:
        super().__init__("the context of an earlier answer, which the prompt goes on from", ())

    def read(self, fields: Fields, limits: Limits) -> tuple[Turn, ...]:
        given = fields.raw(self.name)
        if not isinstance(given, list) or not all(_whole(one) for one in given):
            raise fields.error(self.name, "must be a list of whole numbers")
        if not given:
            return ()
        try:
            return tuple(turns_in([int(one) for one in given]))
        except (ValueError, KeyError, TypeError, OverflowError):
            raise self._foreign(fields) from None

    def _foreign(self, fields: Fields) -> InvalidRequest:
        text = "is not the context of an answer of this server: leave it out, or send the conversation to /api/chat"
        return fields.error(self.name, text)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "integer"}}


def _whole(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
