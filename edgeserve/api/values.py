"""Fields of one value: texts, numbers and flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from edgeserve.api.fields import NAME_CHARS, Fields, clipped, kind
from edgeserve.api.limits import Limits
from edgeserve.api.schema import VISIBLE, Bound, Field, limit_of, listed

N = TypeVar("N", int, int | None)
F = TypeVar("F", float, float | None)


class Text(Field[str]):
    """A string of at most ``limit`` characters. A required one holds more than white space.

    ``advice`` follows the limit in the error about a longer string.
    """

    def __init__(self, words: str, *, required: bool = False, limit: Bound | None = None, advice: str = "") -> None:
        super().__init__(words, "", required=required)
        self._limit = limit
        self._advice = advice

    def read(self, fields: Fields, limits: Limits) -> str:
        limit = None if self._limit is None else limit_of(self._limit, limits)
        read = fields.required_text if self.required else fields.text
        return read(self.name, limit=limit, advice=self._advice)

    def schema(self, limits: Limits) -> dict[str, Any]:
        least = {"minLength": 1, "pattern": VISIBLE} if self.required else {}
        most = {} if self._limit is None else {"maxLength": limit_of(self._limit, limits)}
        return {"type": "string"} | least | most


class Enum(Field[str]):
    """One of several strings. Without a default, leaving the field out is an empty string."""

    def __init__(self, words: str, values: Sequence[str], *, required: bool = False, default: str = "") -> None:
        super().__init__(words, default, required=required)
        self._values = tuple(values)

    def read(self, fields: Fields, limits: Limits) -> str:
        value = fields.raw(self.name)
        if value in self._values:
            return str(value)
        value = (fields.required_text if self.required else fields.text)(self.name, limit=NAME_CHARS)
        raise fields.error(self.name, f"must be {listed(self._values)}, not {clipped(value, 80)!r}")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "enum": list(self._values)}


class Texts(Field[tuple[str, ...]]):
    """A string, or a list of at most ``limit`` strings: of at most ``chars`` characters, or of these ``values``."""

    def __init__(self, words: str, limit: int, *, chars: int | None = None, values: Sequence[str] = ()) -> None:
        super().__init__(words, ())
        self._limit = limit
        self._chars = chars
        self._values = values

    def read(self, fields: Fields, limits: Limits) -> tuple[str, ...]:
        texts = fields.texts(self.name, self._limit)
        if self._chars is not None and (longest := max(map(len, texts), default=0)) > self._chars:
            raise fields.error(self.name, f"has {longest} characters; the limit is {self._chars}")
        if self._values and (unknown := sorted(set(texts) - set(self._values))):
            raise fields.error(self.name, f"must be {listed(self._values)}, not {', '.join(unknown)}")
        return texts

    def schema(self, limits: Limits) -> dict[str, Any]:
        text: dict[str, Any] = {"type": "string"}
        if self._chars is not None:
            text["maxLength"] = self._chars
        if self._values:
            text["enum"] = list(self._values)
        return {"oneOf": [text, {"type": "array", "items": text, "maxItems": self._limit}]}


class Number(Field[F]):
    """A number between two bounds."""

    @overload
    def __init__(self: Number[float], words: str, low: float, high: float, *, default: float) -> None: ...

    @overload
    def __init__(self: Number[float | None], words: str, low: float, high: float) -> None: ...

    def __init__(self, words: str, low: float, high: float, *, default: Any = None) -> None:
        super().__init__(words, default)
        self._low, self._high = low, high

    def read(self, fields: Fields, limits: Limits) -> F:
        value: Any = fields.number(self.name, self._low, self._high)
        read: F = value
        return read

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "number", "minimum": self._low, "maximum": self._high}


class Integer(Field[N]):
    """A whole number between two bounds."""

    @overload
    def __init__(self: Integer[int], words: str, low: int, high: Bound, *, default: int) -> None: ...

    @overload
    def __init__(self: Integer[int | None], words: str, low: int, high: Bound) -> None: ...

    def __init__(self, words: str, low: int, high: Bound, *, default: Any = None) -> None:
        super().__init__(words, default)
        self._low, self._high = low, high

    def read(self, fields: Fields, limits: Limits) -> N:
        value: Any = fields.integer(self.name, self._low, limit_of(self._high, limits))
        read: N = value
        return read

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "integer", "minimum": self._low, "maximum": limit_of(self._high, limits)}


class Integers(Field[tuple[int, ...]]):
    """A list of at most ``limit`` whole numbers between two bounds."""

    def __init__(self, words: str, limit: int, low: int, high: int) -> None:
        super().__init__(words, ())
        self._limit, self._low, self._high = limit, low, high

    def read(self, fields: Fields, limits: Limits) -> tuple[int, ...]:
        given = fields.raw(self.name)
        if not isinstance(given, list):
            raise fields.error(self.name, f"must be a list of whole numbers, not {kind(given)}")
        if len(given) > self._limit:
            raise fields.error(self.name, f"has {len(given)} entries; the limit is {self._limit}")
        items = fields.inner({f"{self.name}[{at}]": one for at, one in enumerate(given)}, fields.full(""))
        read = [items.integer(name, self._low, self._high) for name, _ in items.items()]
        if None in read:
            raise fields.error(f"{self.name}[{read.index(None)}]", "must be a whole number, not null")
        return tuple(one for one in read if one is not None)

    def schema(self, limits: Limits) -> dict[str, Any]:
        item = {"type": "integer", "minimum": self._low, "maximum": self._high}
        return {"type": "array", "items": item, "maxItems": self._limit}


class Flag(Field[bool]):
    """true or false; in a form also 1 or 0."""

    def __init__(self, words: str, *, default: bool = False) -> None:
        super().__init__(words, default)

    def read(self, fields: Fields, limits: Limits) -> bool:
        return fields.flag(self.name)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "boolean"}


class Ignored(Field[None]):
    """A parameter of any value, which changes nothing here."""

    def __init__(self, words: str = "accepted; it changes nothing here") -> None:
        super().__init__(words, None)

    def read(self, fields: Fields, limits: Limits) -> None:
        return None

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {}
