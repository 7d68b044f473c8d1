"""Checks that the fields of a dataclass hold what their annotations say.

A process that a crafted file has taken over sends what it likes, and Python itself checks no field.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union

Check = Callable[[Any], bool]
Fields = tuple[tuple[str, Check], ...]


def unfit(value: Any) -> str | None:
    """The name of the first field of a dataclass that holds something else than its annotation says."""
    kind: Any = type(value)
    for name, fits in _checks(kind):
        if not fits(getattr(value, name)):
            return name
    return None


@functools.cache
def _checks(kind: Any) -> Fields:
    return tuple((name, _check(hint)) for name, hint in typing.get_type_hints(kind).items())


def _check(hint: Any) -> Check:
    """The check of one annotation. A nested dataclass is checked when it is read, so that its class is enough here."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in arguments
    if origin in (Union, types.UnionType):
        parts = [_check(one) for one in arguments]
        return lambda value: any(fits(value) for fits in parts)
    if origin is tuple:
        return _tuple(arguments)
    if origin is not None and issubclass(origin, Mapping):
        key, item = _check(arguments[0]), _check(arguments[1])
        return lambda value: isinstance(value, Mapping) and all(key(k) and item(v) for k, v in value.items())
    if hint in (int, float):
        numbers = int if hint is int else (int, float)
        return lambda value: isinstance(value, numbers) and not isinstance(value, bool)
    if hint is Any or getattr(hint, "_is_protocol", False):
        return lambda value: True
    return lambda value: isinstance(value, hint)


def _tuple(arguments: tuple[Any, ...]) -> Check:
    if arguments[-1:] == (...,):
        kind, every = arguments[0], _check(arguments[0])
        return lambda value: isinstance(value, tuple) and (set(map(type, value)) == {kind} or all(map(every, value)))
    parts = [_check(one) for one in arguments]
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(parts)
        and all(fits(one) for fits, one in zip(parts, value, strict=True))
    )
