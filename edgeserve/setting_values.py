"""Values of settings: read from a variable's text, and checked against their type and bounds."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
from collections.abc import Mapping
from types import MappingProxyType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

LARGEST = {int: 2**31 - 1, float: 1e9}
"""Upper bounds of keys that declare none: a 32-bit integer of C, and 31 years in seconds."""
NAMES = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}
BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
NOTHING: Mapping[str, Any] = MappingProxyType({})


_cached_hints = functools.cache(get_type_hints)


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """Types of the fields, evaluated once: each evaluation compiles every annotation."""
    return _cached_hints(kind)  # type: ignore[arg-type]  # mypy doubts that a type is hashable


def shorten(value: object) -> str:
    """A value for a message. A long value is cut, and a huge number is not written out."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    try:
        return short.repr(value)
    except ValueError:  # Python spells out no more than 4,300 digits
        return "a number of thousands of digits"


def from_text(text: str, hint: Any) -> object:
    """A variable's text in the type of its key; the text itself when it has another type."""
    if hint is bool:
        return BOOLEANS.get(text.strip().lower(), text)
    if get_origin(hint) is tuple:
        return [one.strip() for one in text.split(",")]
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            return text
    return text


def checked(value: Any, hint: Any, bounds: Mapping[str, Any]) -> Any:
    """The value in the type of its key. Raises ValueError with the expected value and the wrong part."""
    if dataclasses.is_dataclass(hint):
        return _checked_table(value, hint)
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        if item is str and not isinstance(value, list | tuple):
            value = [value]
        words = bounds.get("words")
        if not isinstance(value, list | tuple):
            raise ValueError(words or f"a list, each item {_expected(item, bounds)}")
        return tuple(_item(one, item, bounds, words) for one in value)
    plain, choices = _plain(hint, bounds)
    if type(value) is str and value in bounds.get("special", ()):
        return value
    # bool is a subclass of int; a float accepts whole numbers.
    allowed = (int, float) if plain is float else (plain,)
    if type(value) not in allowed or (choices and value not in choices) or (plain is str and "\0" in value):
        raise ValueError(_expected(hint, bounds))
    if plain in LARGEST and value not in bounds.get("special", ()):
        low, high = bounds.get("low"), bounds.get("high")
        # No comparison holds for NaN, so this refuses NaN, too.
        if not (-LARGEST[plain] if low is None else low) <= value <= (LARGEST[plain] if high is None else high):
            raise ValueError(_expected(hint, bounds, value))
    return float(value) if plain is float else value


def _checked_table(value: Any, kind: Any) -> Any:
    """A table within a value, with the keys that ``kind`` declares. Raises ValueError."""
    declared = {one.name: one for one in dataclasses.fields(kind)}
    if not isinstance(value, Mapping) or not value.keys() <= declared.keys():
        raise ValueError(_expected(kind, NOTHING))
    hints, values = hints_of(kind), {}
    for name, given in value.items():
        try:
            values[name] = checked(given, hints[name], declared[name].metadata)
        except ValueError as error:
            raise ValueError(f"{name}: {error.args[0]}") from None
    return kind(**values)


def _item(value: Any, hint: Any, bounds: Mapping[str, Any], words: str | None) -> Any:
    try:
        return checked(value, hint, bounds)
    except ValueError as error:
        raise ValueError(words or error.args[0], value) from None


def _plain(hint: Any, bounds: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The Python type of a value, and its choices. In a union the first type counts; ``special`` has the words."""
    if get_origin(hint) in (Union, UnionType):
        hint = get_args(hint)[0]
    words = get_args(hint) if get_origin(hint) is Literal else ()
    return (str, bounds.get("choices") or words) if words else (hint, bounds.get("choices") or ())


def _expected(hint: Any, bounds: Mapping[str, Any], value: float = 0.0) -> str:
    """Words for a value of this type within these bounds."""
    plain, choices = _plain(hint, bounds)
    if bounds.get("words"):
        return str(bounds["words"])
    if dataclasses.is_dataclass(plain):
        return f"a table of {', '.join(one.name for one in dataclasses.fields(plain))}"
    if choices:
        return f"one of {', '.join(choices)}"
    text, low, high = NAMES[plain], bounds.get("low"), bounds.get("high")
    if plain in LARGEST and high is None and not value <= LARGEST[plain]:
        high = LARGEST[plain]
    if low is not None:
        text += f" of at least {low:.15g}" if high is None else f" from {low:.15g} to {high:.15g}"
    elif high is not None:
        text += f" of at most {high:.15g}"
    return text + "".join(
        f", or {_shown(one)} for {meaning}" for one, meaning in bounds.get("special", NOTHING).items()
    )


def _shown(special: float | str) -> str:
    return f'"{special}"' if isinstance(special, str) else f"{special:g}"
