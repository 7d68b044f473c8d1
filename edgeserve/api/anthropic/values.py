"""Fields of Anthropic's dialect that several objects share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgeserve.api.fields import Fields, kind
from edgeserve.api.json_schema import ENCODER
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, read_variant
from edgeserve.api.tools import ToolName
from edgeserve.api.values import Integer

Blocks = tuple[Any, ...]
Variants = Callable[[], Mapping[str, type[Any]]]
"""Records of blocks by the type of the block."""


class Content(Field[Blocks]):
    """A text, or a list of blocks, which may be empty. A text is read as one block of text."""

    def __init__(
        self, variants: Variants, words: str = "a text, or a list of blocks", *, required: bool = False
    ) -> None:
        super().__init__(words, (), required=required)
        self._variants = variants

    def read(self, fields: Fields, limits: Limits) -> Blocks:
        given = fields.raw(self.name)
        variants = self._variants()
        if isinstance(given, str):
            return (variants["text"](fields.inner({"type": "text", "text": given}, fields.full("")), limits),)
        if not isinstance(given, list):
            raise fields.error(self.name, f"must be a text or a list of blocks, not {kind(given)}")
        return tuple(read_variant(one, variants, limits) for one in (fields.objects(self.name) if given else ()))

    def schema(self, limits: Limits) -> dict[str, Any]:
        blocks = [one.describe(limits) for one in dict.fromkeys(self._variants().values())]
        return {"oneOf": [{"type": "string"}, {"type": "array", "items": {"oneOf": blocks}}]}


class Input(Field[str]):
    """The arguments of a past call as the text of a JSON object."""

    def __init__(self) -> None:
        super().__init__("the arguments of the call; left out: none", "")

    def read(self, fields: Fields, limits: Limits) -> str:
        given = fields.raw(self.name)
        if not isinstance(given, dict):
            raise fields.error(self.name, f"must be an object, not {kind(given)}")
        try:
            return "".join(ENCODER.iterencode(given))
        except ValueError:  # 1e999 was read as infinite
            raise fields.error(self.name, "holds a number beyond the range of a float") from None

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "object"}


class LongToolName(ToolName):
    """The name of a tool. Anthropic's may be twice as long as OpenAI's."""

    LONGEST = 128


class Required(Integer[int]):
    """A whole number that must be there."""

    def __init__(self, words: str, low: int, high: int) -> None:
        super().__init__(words, low, high, default=low)
        self.required = True

    def read(self, fields: Fields, limits: Limits) -> int:
        if not fields.has(self.name):
            raise fields.error(self.name, "is required")
        return super().read(fields, limits)

    def describe(self, limits: Limits, *, null: bool = False) -> dict[str, Any]:
        return {name: one for name, one in super().describe(limits, null=null).items() if name != "default"}
