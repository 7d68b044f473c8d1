"""The answer that ``response.create`` asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.realtime.commands import Respond, Whole
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.conversation import Conversation
from edgeserve.api.realtime.items import Item, read_item
from edgeserve.api.schema import Record
from edgeserve.api.values import Enum
from edgeserve.dataclass import dataclass
from edgeserve.errors import InvalidRequest

MAX_PROMPT_ITEMS, MAX_SOUNDS = 512, 8
"""Items to answer, and those of them whose sound is to be transcribed."""


class Beside(Record):
    """Fields of ``response.create`` beside the settings of the session."""

    OPEN = True
    conversation = Enum("none: beside the conversation", ("auto", "none"), default="auto")
    metadata = Whole("comes back in the response")


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer that is to be made.

    - ``beside``: the answer does not become a part of the conversation
    - ``prompt``: items to answer instead of the conversation
    - ``metadata``: comes back in the response
    """

    config: Config
    beside: bool = False
    prompt: list[Item] | None = None
    metadata: Mapping[str, Any] | None = None


def read(
    command: Respond, config: Config, limits: Limits, conversation: Conversation, new_id: Callable[[str], str]
) -> Asked:
    """The answer that a client asks for; ``config`` where it says nothing else. Raises InvalidRequest and TooLarge."""
    given = dict(command.response.items()) if command.response is not None else {}
    asked = Beside(Fields(given, "response."), limits)
    own = {name: given.pop(name) for name in ("conversation", "metadata", "input") if name in given}
    if given:
        config = config.changed(given, limits, "response")
    items = own.get("input")
    prompt = _prompt(items, limits, conversation, new_id) if items is not None else None
    metadata: Mapping[str, Any] | None = dict(asked.metadata.items()) if asked.metadata is not None else None
    return Asked(config, asked.conversation == "none", prompt, metadata)


def _prompt(given: Any, limits: Limits, conversation: Conversation, new_id: Callable[[str], str]) -> list[Item]:
    """The items to answer instead of the conversation; items of the conversation by reference."""
    fits = isinstance(given, list) and len(given) <= MAX_PROMPT_ITEMS
    if not fits or not all(isinstance(one, dict) for one in given):
        text = f"response.input must be a list of at most {MAX_PROMPT_ITEMS} items"
        raise InvalidRequest(text, param="response.input")
    items = []
    for at, one in enumerate(given):
        if one.get("type") == "item_reference":
            items.append(conversation.find(str(one.get("id"))))
        else:
            items.append(read_item(Fields(one, f"response.input[{at}]."), limits, new_id("item")))
    if (sounds := sum(item.sound is not None for item in items)) > MAX_SOUNDS:
        text = f"response.input has {sounds} sounds without a transcript; the limit is {MAX_SOUNDS}: send transcripts"
        raise InvalidRequest(text, param="response.input")
    return items
