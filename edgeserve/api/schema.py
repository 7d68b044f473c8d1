"""Declared fields and the records they make up: one declaration reads, checks and documents a field of a request.

A record is a class with a field for each attribute. Making one reads all its fields:

    class Speech(Record):
        input = Text("the text to say", required=True)
        speed = Number("pace", 0.25, 4, default=1.0)

    asked = Speech(Fields({"input": "Hello"}), Limits())
    asked.speed  # 1.0
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, overload

from edgeserve.api.fields import NAME_CHARS, Fields, clipped
from edgeserve.api.limits import Limits
from edgeserve.errors import InvalidRequest

T = TypeVar("T")
Bound = int | Callable[[Limits], int]
"""A limit: a constant, or a setting of the server."""
VISIBLE = r"[^\s\x1c-\x1f\x85]"
"""A character that ``str.strip`` leaves. Dialects of regular expressions differ in the ones of ``\\s``."""
GIVEN = {"type": ["string", "array"], "pattern": VISIBLE, "minItems": 1}
"""The JSON schema of a text that is more than white space, or of a list that is not empty."""


class Field(ABC, Generic[T]):
    """One field of a record. ``words`` describe it to clients.

    Without a value, a required field refuses the request and any other has its ``default``. A null is no value.
    """

    name: str

    def __init__(self, words: str, default: T, *, required: bool = False) -> None:
        self.words = words
        self.default = default
        self.required = required

    def __set_name__(self, owner: type[Record], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, record: None, owner: type[Record]) -> Self: ...

    @overload
    def __get__(self, record: Record, owner: type[Record]) -> T: ...

    def __get__(self, record: Record | None, owner: type[Record]) -> Self | T:
        return self if record is None else self.default  # a value that was read stands in the record's own attributes

    @abstractmethod
    def read(self, fields: Fields, limits: Limits) -> T:
        """The value among these. Raises InvalidRequest, which names the field."""

    @abstractmethod
    def schema(self, limits: Limits) -> dict[str, Any]:
        """The values that ``read`` accepts, as JSON schema without words and default."""

    def describe(self, limits: Limits, *, null: bool = False) -> dict[str, Any]:
        """The JSON schema of the field. ``null``: a null may stand for the value."""
        words = {"description": self.words} if self.words else {}
        simple = isinstance(self.default, str | int | float) and self.default
        default = {"default": self.default} if simple else {}
        schema = self.schema(limits)
        return words | (_or_null(schema) if null else schema) | default


class Record:
    """An object of declared fields. It ignores any other field, and notes its name.

    It raises InvalidRequest for another field instead where the server's settings say so, or the record is ``STRICT``.
    An ``OPEN`` record takes any field without a note.
    """

    FIELDS: ClassVar[Mapping[str, Field[Any]]] = {}
    OPEN: ClassVar[bool] = False
    STRICT: ClassVar[bool] = False
    """Whether an unknown field is an error whatever the settings say."""
    ANY_OF: ClassVar[tuple[str, ...]] = ()
    """Fields of which the client must give at least one, which is more than white space or an empty list."""
    NULLS: ClassVar[bool] = True
    """Whether a null may stand for a field that is left out. Forms and queries cannot write a null."""
    MEDIA: ClassVar[str] = "application/json"
    """Media type of a body that holds the record."""
    _required: ClassVar[tuple[Field[Any], ...]] = ()

    def __init_subclass__(cls) -> None:
        inherited = reversed(cls.__mro__)
        cls.FIELDS = {name: one for base in inherited for name, one in vars(base).items() if isinstance(one, Field)}
        cls._required = tuple(one for one in cls.FIELDS.values() if one.required)

    def __init__(self, fields: Fields, limits: Limits) -> None:
        self._given = fields
        declared, read = self.FIELDS, self.__dict__
        for name, value in fields.items():
            if (field := declared.get(name)) is None:
                if self.OPEN:
                    continue
                if self._refuses(limits):
                    raise fields.unknown(name, declared)
                fields.ignore(name)
            elif value is not None:
                read[name] = field.read(fields, limits)
        for field in self._required:
            if field.name not in read:
                read[field.name] = field.read(fields, limits)
        if self.ANY_OF and not any(_given(fields.raw(name)) for name in self.ANY_OF):
            first, *others = self.ANY_OF
            raise fields.error(first, f"is required and must not be empty; or give {' or '.join(others)} instead")

    @classmethod
    def _refuses(cls, limits: Limits) -> bool:
        return not cls.OPEN and (cls.STRICT or limits.unknown_fields == "refuse")

    @property
    def ignored(self) -> tuple[str, ...]:
        """Full names of the unknown fields that were left out, those of records inside included."""
        return tuple(self._given.ignored)

    def has(self, field: str) -> bool:
        """Whether the client gave the field a value."""
        return self._given.has(field)

    def error(self, field: str, text: str) -> InvalidRequest:
        """The error about a field that was read. It names the field from the top of the body."""
        return self._given.error(field, text)

    @classmethod
    def describe(cls, limits: Limits) -> dict[str, Any]:
        """The JSON schema of the record."""
        described: dict[str, Any] = {"type": "object"}
        if cls.FIELDS:
            fields = cls.FIELDS.items()
            described["properties"] = {
                name: one.describe(limits, null=cls.NULLS and not one.required) for name, one in fields
            }
        if cls.ANY_OF:
            described["anyOf"] = [{"required": [name], "properties": {name: GIVEN}} for name in cls.ANY_OF]
        if required := [name for name, one in cls.FIELDS.items() if one.required]:
            described["required"] = required
        return described | ({"additionalProperties": False} if cls._refuses(limits) else {})


class Strict(Record):
    """A record that takes no unknown field: an order to the server, where a misspelled field would do harm."""

    STRICT = True


class Form(Record):
    """A multipart form with one file."""

    MEDIA = "multipart/form-data"
    NULLS = False
    PART_BYTES: ClassVar[int] = 1 << 20
    """Bytes of one field of text at most."""

    @classmethod
    def file_name(cls) -> str:
        """The field of the file."""
        return next(name for name, one in cls.FIELDS.items() if isinstance(one, File))


R = TypeVar("R", bound=Record)


class File(Field[bytes]):
    """The file of a form. ``read_upload`` has checked that it is there. ``types``: its media types, for clients."""

    def __init__(self, words: str, types: tuple[str, ...] = ()) -> None:
        super().__init__(words, b"", required=True)
        self.types = types

    def read(self, fields: Fields, limits: Limits) -> bytes:
        data: bytes = fields.raw(self.name)
        return data

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "format": "binary"}


class Object(Field[T]):
    """A nested record."""

    @overload
    def __init__(self: Object[R], words: str, record: type[R], *, required: Literal[True]) -> None: ...

    @overload
    def __init__(self: Object[R | None], words: str, record: type[R]) -> None: ...

    def __init__(self, words: str, record: Any, *, required: bool = False) -> None:
        nothing: Any = None
        super().__init__(words, nothing, required=required)
        self._record = record

    def read(self, fields: Fields, limits: Limits) -> T:
        nested = fields.object(self.name)
        if nested is None:
            raise fields.error(self.name, "is required")
        read: T = self._record(nested, limits)
        return read

    def schema(self, limits: Limits) -> dict[str, Any]:
        described: dict[str, Any] = self._record.describe(limits)
        return described


class Objects(Field[tuple[R, ...]]):
    """A list of records: at least one, unless it may be ``empty``."""

    def __init__(
        self, words: str, record: type[R], *, required: bool = False, empty: bool = False, limit: int | None = None
    ) -> None:
        super().__init__(words, (), required=required)
        self._record = record
        self._empty = empty
        self._limit = limit

    def read(self, fields: Fields, limits: Limits) -> tuple[R, ...]:
        if self._empty and fields.raw(self.name) == []:
            return ()
        objects = fields.objects(self.name)
        if self._limit is not None and len(objects) > self._limit:
            raise fields.error(self.name, f"has {len(objects)} entries; the limit is {self._limit}")
        return tuple(self._record(one, limits) for one in objects)

    def schema(self, limits: Limits) -> dict[str, Any]:
        least = {} if self._empty else {"minItems": 1}
        most = {} if self._limit is None else {"maxItems": self._limit}
        return {"type": "array", "items": self._record.describe(limits)} | least | most


def read_variant(fields: Fields, variants: Mapping[str, type[R]], limits: Limits) -> R:
    """The record that the field ``type`` of an object names. Raises InvalidRequest."""
    name = fields.required_text("type", limit=NAME_CHARS)
    if name not in variants:
        raise fields.error("type", f"must be {listed(variants)}, not {clipped(name, 80)!r}")
    return variants[name](fields, limits)


def _given(value: Any) -> bool:
    """Whether the value follows ``GIVEN``."""
    return bool(value.strip() if isinstance(value, str) else value)


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, or a null. A schema that takes a null already stays as it is."""
    if not schema or schema.get("type") == "null" or None in schema.get("enum", ()):
        return schema
    return {"oneOf": [*schema.get("oneOf", [schema]), {"type": "null"}]}


def limit_of(bound: Bound, limits: Limits) -> int:
    return bound(limits) if callable(bound) else bound


def listed(values: Iterable[str]) -> str:
    """The values as an error offers them: "one of json, text, srt", "audio or sse"."""
    *others, last = values
    return f"one of {', '.join([*others, last])}" if len(others) > 1 else " or ".join([*others, last])
