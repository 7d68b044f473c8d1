"""Fields about the thoughts of a model, and the form of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.json_schema import JsonSchema
from edgeserve.api.limits import Limits
from edgeserve.api.question import MAX_TOKENS
from edgeserve.api.schema import Field, Object, Record, read_variant
from edgeserve.api.values import Enum, Integer
from edgeserve.dataclass import dataclass

EFFORTS = ("low", "medium", "high", "xhigh", "max")
DISPLAY = "omitted: the answer leaves the thoughts out"


class Enabled(Record):
    type = Enum("", ("enabled",), required=True)
    budget_tokens = Integer("accepted; thoughts end where the model ends them", 0, MAX_TOKENS)
    display = Enum(DISPLAY, ("summarized", "omitted", "full"))


class Adaptive(Record):
    type = Enum("as the model does by itself", ("adaptive",), required=True)
    display = Enum(DISPLAY, ("summarized", "omitted", "full"))


class Disabled(Record):
    type = Enum("", ("disabled",), required=True)


KINDS: Mapping[str, type[Enabled | Adaptive | Disabled]] = MappingProxyType(
    {"enabled": Enabled, "adaptive": Adaptive, "disabled": Disabled}
)


@dataclass(frozen=True, slots=True)
class Wish:
    """Whether the model thinks (None: the model's default), and whether the answer includes the thoughts."""

    on: bool | None = False
    told: bool = False


class ThinkingField(Field[Wish]):
    """``thinking``."""

    def __init__(self) -> None:
        super().__init__("whether the model thinks before its answer; left out: it does not", Wish())

    def read(self, fields: Fields, limits: Limits) -> Wish:
        given = fields.object(self.name)
        if given is None:
            return self.default
        read = read_variant(given, KINDS, limits)
        if isinstance(read, Disabled):
            return self.default
        return Wish(True if isinstance(read, Enabled) else None, told=read.display != "omitted")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [one.describe(limits) for one in KINDS.values()]}


class Format(Record):
    type = Enum("", ("json_schema",), required=True)
    schema = JsonSchema("holds the answer to it", required=True)


class OutputConfig(Record):
    effort = Enum("a variable of the model's chat template, reasoning_effort", EFFORTS)
    format = Object("the form of the answer", Format)


class Shaped(Record):
    """Fields about thoughts and the form of the answer."""

    thinking = ThinkingField()
    output_config = Object("effort, and the form of the answer", OutputConfig)
    output_format = Object("the older place of output_config.format", Format)

    @property
    def json_schema(self) -> str | None:
        """The schema that holds the answer."""
        form = (self.output_config and self.output_config.format) or self.output_format
        return form.schema if form else None

    def variables(self) -> str:
        """Variables of the chat template, as the text of a JSON object; empty without any."""
        effort = self.output_config.effort if self.output_config else ""
        return json.dumps({"reasoning_effort": effort}) if effort else ""
