"""Typed reading of the values of a JSON object, a form or a query. Every error names its field."""

from __future__ import annotations

import re
from collections.abc import Collection, ItemsView
from typing import Any

from edgeserve.errors import InvalidRequest

NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
INTEGER = re.compile(r"[-+]?[0-9]+")
FLAGS = {"true": True, "1": True, "false": False, "0": False}
NAME_CHARS = 1024
"""Characters of a text that names a model, a voice or a format. Searching megabytes holds the event loop."""
MOST_IGNORED = 64
"""Unknown fields of one request whose names are kept."""
LONGEST_NUMBER = 64
"""Characters of a number that is written as text."""
SMALLEST = 2.0**-126
"""The smallest normal float32. Engines compute in float32 and may take a smaller number for zero."""


class Fields:
    """The values of one object. Values of a form or a query are ``written``: numbers and flags are text.

    Errors prefix names with ``path``, for example "messages[0].". ``ignored``: the list of an outer object.
    """

    def __init__(
        self, values: dict[str, Any], path: str = "", *, written: bool = False, ignored: list[str] | None = None
    ) -> None:
        self._values = values
        self._path = path
        self._written = written
        self.ignored = [] if ignored is None else ignored
        """Full names of unknown fields that were left out, here and in the objects inside."""

    def inner(self, values: dict[str, Any], path: str) -> Fields:
        """The values of an object inside."""
        return Fields(values, path, ignored=self.ignored)

    def ignore(self, name: str) -> None:
        """Note that the unknown field was left out."""
        if len(self.ignored) < MOST_IGNORED:
            self.ignored.append(self.full(clipped(name, NAME_CHARS)))

    def items(self) -> ItemsView[str, Any]:
        return self._values.items()

    def has(self, name: str) -> bool:
        """Whether the field has a value. A null counts as left out."""
        return self._values.get(name) is not None

    def raw(self, name: str) -> Any:
        return self._values.get(name)

    def unknown(self, name: str, known: Collection[str]) -> InvalidRequest:
        """The error about a field that is not ``known``, most likely a misspelled one."""
        return self.error(name, f"is not a known field; known are: {', '.join(sorted(known))}")

    def text(self, name: str, *, limit: int | None = None, advice: str = "") -> str:
        """The string, empty where the field is left out. ``advice`` follows the limit in the error."""
        value = self._values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(name, f"must be a string, not {kind(value)}")
        if limit is not None and len(value) > limit:
            raise self.error(name, f"has {len(value)} characters; the limit is {limit}{advice}")
        return value

    def required_text(self, name: str, *, limit: int | None = None, advice: str = "") -> str:
        value = self.text(name, limit=limit, advice=advice)
        if not value.strip():
            raise self.error(name, "is required and must not be empty")
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """A number between two finite bounds. A number that float32 cannot tell from zero becomes zero."""
        value = self._number(name, low, high)
        if value is None:
            return None
        return float(value) if abs(value) >= SMALLEST else 0.0

    def integer(self, name: str, low: int, high: int) -> int | None:
        value = self._number(name, low, high)
        if value is not None and value != int(value):
            raise self.error(name, f"must be a whole number, not {value:g}")
        return None if value is None else int(value)

    def _number(self, name: str, low: float, high: float) -> int | float | None:
        given = self._values.get(name)
        if given is None:
            return None
        value = read_number(given) if self._written and isinstance(given, str) else given
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(name, f"must be a number, not {self._shown(given)}")
        if not low <= value <= high:
            raise self.error(name, f"must lie between {low:g} and {high:g}, not {_figure(value)}")
        return value

    def flag(self, name: str) -> bool:
        value = self._values.get(name)
        if value is None:
            return False
        if self._written:
            value = FLAGS.get(value, value) if isinstance(value, str) else value
        if not isinstance(value, bool):
            raise self.error(name, f"must be true or false, not {self._shown(value)}")
        return value

    def _shown(self, value: Any) -> str:
        return repr(clipped(value, 40)) if self._written and isinstance(value, str) else kind(value)

    def object(self, name: str) -> Fields | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, f"must be an object, not {kind(value)}")
        return self.inner(value, f"{self._path}{name}.")

    def objects(self, name: str) -> list[Fields]:
        """A list of objects; at least one."""
        value = self._values.get(name)
        if not isinstance(value, list) or not value:
            raise self.error(name, "must be a list of at least one object")
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.error(f"{name}[{index}]", f"must be an object, not {kind(item)}")
        return [self.inner(item, f"{self._path}{name}[{index}].") for index, item in enumerate(value)]

    def texts(self, name: str, limit: int) -> tuple[str, ...]:
        """A string, or a list of at most ``limit`` strings."""
        value = self._values.get(name)
        if value is None:
            return ()
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise self.error(name, f"must be a string or a list of strings, not {kind(value)}")
        if len(items) > limit:
            raise self.error(name, f"has {len(items)} entries; the limit is {limit}")
        return tuple(items)

    def full(self, name: str) -> str:
        """The field's name from the top of the body: "messages[0].content"."""
        return f"{self._path}{name}"

    def error(self, name: str, text: str) -> InvalidRequest:
        field = self.full(name)
        return InvalidRequest(f"{field} {text}", param=field)


def read_number(text: str) -> int | float | None:
    """The number in an ASCII text. It may differ from JSON in a sign, a bare point and white space around it.

    None for any other text.
    """
    text = text.strip(" \t\r\n")
    if len(text) > LONGEST_NUMBER or not NUMBER.fullmatch(text):
        return None
    return int(text) if INTEGER.fullmatch(text) else float(text)


def kind(value: Any) -> str:
    """The JSON type of a value, for errors."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"the number {_figure(value)}"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names[type(value)]


def _figure(value: float) -> str:
    """At most 24 characters. Python refuses to write more than 4,300 digits."""
    if isinstance(value, int) and value.bit_length() > 4096:
        return f"{'-' * (value < 0)}1e{value.bit_length() * 3 // 10}"
    return clipped(str(value), 24)


def clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}…"
