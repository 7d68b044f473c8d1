"""Dataclasses whose methods are made at their first use.

``dataclasses.dataclass`` writes and compiles up to ten methods for each class while its module is imported, which
takes 0.5 ms a class. A worker imports a hundred such classes before it is ready, and has made objects of twenty.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

FIRST, FIELDS = ("__init__",), ("__dataclass_fields__",)
"""Made apart from all others: most classes need nothing else."""
NO_FIELD = ("ClassVar", "InitVar", "KW_ONLY")
REST = ("__dataclass_params__", "__match_args__", "__repr__")
EQUAL, HASH, STATE = ("__eq__",), ("__hash__",), ("__getstate__", "__setstate__")
ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
REPLACE = ("__replace__",) if sys.version_info >= (3, 13) else ()
FEW = 8
"""Objects of a class that are made before its __init__ is compiled."""
MISSING = dataclasses.MISSING
Fields = dict[str, tuple[Any, Any]]
"""Default and factory by name."""
_MAKING = threading.RLock()


class _Factory:
    """The default of a parameter that a factory makes, as signatures show it."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


class _Later:
    """Stands in a class for an attribute until somebody asks for it. ``make`` puts the real one in its place."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, make: Callable[[type], None]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        self._make(self._owner)
        made = vars(self._owner)[self._name]
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


class _LaterInit(_Later):
    """Stands for an __init__ that is compiled late: the first objects get their fields one by one, which takes less."""

    __slots__ = ("_fields", "_left", "_set")

    def __init__(self, make: Callable[[type], None], fields: Callable[[], Fields | None], frozen: bool) -> None:
        super().__init__(make)
        self._fields, self._left = functools.cache(fields), FEW
        self._set: Callable[[object, str, object], None] = object.__setattr__ if frozen else setattr

    def __get__(self, instance: object, owner: type) -> Any:
        self._left -= instance is not None
        if instance is None or self._left < 0 or (fields := self._fields()) is None:
            return super().__get__(instance, owner)
        return functools.partial(self._init, fields, instance, owner)

    def _init(self, fields: Fields, instance: Any, owner: type, /, *given: object, **named: object) -> None:
        values = dict(zip(fields, given, strict=False)) | named
        missing = fields.keys() - values.keys()
        fit = len(values) == len(given) + len(named) and fields.keys() >= values.keys()
        if not fit or any(_is_required(*fields[name]) for name in missing):
            super().__get__(instance, owner)(*given, **named)  # raises TypeError
            return
        for name, (default, factory) in fields.items():
            if name in missing:
                values[name] = default if factory is MISSING else factory()
            self._set(instance, name, values[name])
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()


def _wait(
    names: Iterable[str], makes: Callable[[], Mapping[str, Any]], stand_in: Callable[..., _Later] = _Later
) -> dict[str, _Later]:
    """Attributes that are made together. A class may have some of them only."""

    def make(owner: type) -> None:
        with _MAKING:
            left = [name for name, one in waiting.items() if vars(owner).get(name) is one]
            made = makes() if left else {}  # else another thread was faster
            for name in left:
                setattr(owner, name, made[name])

    waiting = {name: stand_in(make) for name in names}
    return waiting


def _dataclass(*, slots: bool, frozen: bool = False, eq: bool = True, order: bool = False) -> Callable[[type], type]:
    """As ``dataclasses.dataclass``, for classes with slots whose annotations are all fields."""
    rest = REST + REPLACE + EQUAL * eq + HASH * (eq and frozen) + STATE * frozen + ORDER * order
    whole = dataclasses.dataclass(frozen=frozen, eq=eq, order=order, slots=slots)

    def decorate(kind: type) -> type:
        derived = any("__dataclass_fields__" in vars(base) for base in kind.__mro__[1:])
        inherited = {name for base in kind.__mro__[1:] for name in vars(base).get("__slots__", ())}
        own = [name for name in kind.__annotations__ if name not in inherited]
        plain = {name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__")}
        # dataclasses would write the signature, for which it runs the module inspect: 8 ms.
        plain["__doc__"] = kind.__doc__ or kind.__name__

        def by(decorator: Callable[[type], type]) -> Mapping[str, Any]:
            made = decorator(_class(kind, plain))
            _check(made, own)
            return vars(made)

        def slim(init: bool) -> Mapping[str, Any]:
            # dataclasses compiles two methods that refuse changes, also where nothing needs them.
            refusing = frozen and (init or derived)
            return by(dataclasses.dataclass(init=init, frozen=refusing, eq=False, repr=False, match_args=False))

        def fields() -> Fields | None:
            return None if derived else _fields(kind, plain)

        def first() -> Mapping[str, Any]:
            return slim(init=True) if (found := fields()) is None else {"__init__": _init(kind, found, frozen)}

        kept = {name: value for name, value in plain.items() if name not in kind.__annotations__}
        refusals = {"__setattr__": _refuse_set, "__delattr__": _refuse_delete} if frozen else {}
        init = functools.partial(_LaterInit, fields=fields, frozen=frozen)
        waiting = _wait(FIRST, first, init) | _wait(FIELDS, lambda: slim(init=False)) | _wait(rest, lambda: by(whole))
        # A class with an __eq__ of its own has the __hash__ None until dataclasses makes one.
        waiting = {name: one for name, one in waiting.items() if plain.get(name) is None}
        return _class(kind, {**kept, **refusals, **waiting, "__slots__": tuple(own)})

    return decorate


def _class(kind: type, names: dict[str, Any]) -> type:
    return type(kind)(kind.__name__, kind.__bases__, {**names, "__qualname__": kind.__qualname__})


def _refuse_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _is_required(default: object, factory: object) -> bool:
    return default is MISSING and factory is MISSING


def _fields(kind: type, plain: Mapping[str, Any]) -> Fields | None:
    """The fields of a class; None where ``dataclasses`` itself must write the __init__, or refuse the class."""
    found: Fields = {}
    optional = False
    for name, annotation in kind.__annotations__.items():
        value: Any = plain.get(name, MISSING)
        factory: Any = MISSING
        if isinstance(value, dataclasses.Field):
            if value.kw_only is True or not value.init:
                return None
            value, factory = value.default, value.default_factory
        required = _is_required(value, factory)
        if isinstance(value, list | dict | set) or any(word in str(annotation) for word in NO_FIELD):
            return None
        if optional and required:
            return None
        found[name], optional = (value, factory), not required
    return found


def _init(kind: type, fields: Fields, frozen: bool) -> Any:
    """The __init__ of ``dataclasses``, which would take four times as long to write it."""
    parameters, lines = ["self"], []
    for name, (value, factory) in fields.items():
        default = "_FACTORY" if factory is not MISSING else f"_fields[{name!r}][0]"
        parameters.append(name if _is_required(value, factory) else f"{name}={default}")
        given = name if factory is MISSING else f"_fields[{name!r}][1]() if {name} is _FACTORY else {name}"
        lines.append(f"_set(self, {name!r}, {given})" if frozen else f"self.{name} = {given}")
    lines += ["self.__post_init__()"] * hasattr(kind, "__post_init__") + ["pass"]
    text = f"def make(_set, _fields, _FACTORY):\n def __init__({', '.join(parameters)}):\n  "
    space: dict[str, Any] = {}
    exec(text + "\n  ".join(lines) + "\n return __init__", vars(sys.modules[kind.__module__]), space)  # noqa: S102
    made = space["make"](object.__setattr__, fields, _FACTORY)
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    made.__annotations__ = {**kind.__annotations__, "return": None}
    return made


def _check(made: Any, slots: list[str]) -> None:
    """Raise TypeError for an annotation that is no field: it has got a slot."""
    fields = {one.name for one in dataclasses.fields(made)}
    if odd := [name for name in slots if name not in fields]:
        raise TypeError(f"{made.__qualname__}.{odd[0]} is no field: use dataclasses.dataclass")


def make_all() -> None:
    """Make the methods that most classes need, for the children of a process that forks."""
    for module in tuple(sys.modules.values()):
        for one in tuple(getattr(module, "__dict__", {}).values()):
            if isinstance(one, type) and isinstance(vars(one).get("__init__"), _Later):
                getattr(one, "__init__")  # noqa: B009 - it is made now
                dataclasses.fields(one)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass
