"""Dataclasses whose methods are made at their first use.

``dataclasses.dataclass`` writes and compiles up to ten methods for each class while its module is imported, which
takes 0.5 ms a class. A worker imports a hundred such classes before it is ready, and has made objects of twenty.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

FIRST = ("__dataclass_fields__", "__init__")
"""Made together: all that most classes ever need."""
REST = ("__dataclass_params__", "__match_args__", "__repr__")
EQUAL, HASH, STATE = ("__eq__",), ("__hash__",), ("__getstate__", "__setstate__")
ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
REPLACE = ("__replace__",) if sys.version_info >= (3, 13) else ()
_MAKING = threading.RLock()


class _Factory:
    """The default of a parameter that a factory makes, as signatures show it."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


class _Later:
    """Stands in a class for an attribute until somebody asks for it. ``make`` puts the real one in its place."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, make: Callable[[], None]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        self._make()
        made = vars(self._owner)[self._name]
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


def _dataclass(*, slots: bool, frozen: bool = False, eq: bool = True, order: bool = False) -> Callable[[type], type]:
    """As ``dataclasses.dataclass``, for classes with slots whose annotations are all fields."""
    rest = REST + REPLACE + EQUAL * eq + HASH * (eq and frozen) + STATE * frozen + ORDER * order
    slim = _slim_frozen if frozen else dataclasses.dataclass(eq=False, repr=False, match_args=False)
    whole = dataclasses.dataclass(frozen=frozen, eq=eq, order=order, slots=slots)

    def decorate(kind: type) -> type:
        plain = {name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__")}
        # dataclasses would write the signature, for which it runs the module inspect: 8 ms.
        plain["__doc__"] = kind.__doc__ or kind.__name__

        def later(names: tuple[str, ...], decorator: Callable[[type], type]) -> dict[str, _Later]:
            def make() -> None:
                with _MAKING:
                    if any(vars(lean)[name] is one for name, one in waiting.items()):  # no thread was faster
                        made = decorator(_class(kind, plain))
                        _check(made, own)
                        for name in waiting:
                            setattr(lean, name, vars(made)[name])

            # A class with an __eq__ of its own has the __hash__ None until dataclasses makes one.
            waiting = {name: _Later(make) for name in names if plain.get(name) is None}
            return waiting

        inherited = {name for base in kind.__mro__[1:] for name in vars(base).get("__slots__", ())}
        own = [name for name in kind.__annotations__ if name not in inherited]
        kept = {name: value for name, value in plain.items() if name not in kind.__annotations__}
        refusals = {"__setattr__": _refuse_set, "__delattr__": _refuse_delete} if frozen else {}
        lean = _class(kind, {**kept, **refusals, **later(FIRST, slim), **later(rest, whole), "__slots__": tuple(own)})
        return lean

    return decorate


def _class(kind: type, names: dict[str, Any]) -> type:
    return type(kind)(kind.__name__, kind.__bases__, {**names, "__qualname__": kind.__qualname__})


def _refuse_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _slim_frozen(kind: Any) -> type:
    """A frozen class with ``FIRST`` alone: dataclasses would compile two methods that refuse changes, 0.15 ms."""
    odd = any(
        isinstance(one, dataclasses.Field) and (one.kw_only is True or not one.init) for one in vars(kind).values()
    )
    if odd or any(hasattr(base, "__dataclass_fields__") for base in kind.__mro__[1:]):
        return dataclasses.dataclass(frozen=True, eq=False, repr=False, match_args=False)(kind)
    made: Any = dataclasses.dataclass(init=False, eq=False, repr=False, match_args=False)(kind)
    parameters, lines = ["self"], []
    found = {one.name: one for one in dataclasses.fields(made)}
    for name, one in found.items():
        if one.default_factory is not dataclasses.MISSING:
            parameters.append(f"{name}=_FACTORY")
            lines.append(f"if {name} is _FACTORY: {name} = _fields[{name!r}].default_factory()")
        else:
            parameters.append(name if one.default is dataclasses.MISSING else f"{name}=_fields[{name!r}].default")
        lines.append(f"_set(self, {name!r}, {name})")
    lines += ["self.__post_init__()"] * hasattr(kind, "__post_init__") + ["pass"]
    text = f"def make(_set, _fields, _FACTORY):\n def __init__({', '.join(parameters)}):\n  "
    space: dict[str, Any] = {}
    exec(text + "\n  ".join(lines) + "\n return __init__", vars(sys.modules[kind.__module__]), space)  # noqa: S102
    made.__init__ = space["make"](object.__setattr__, found, _FACTORY)
    made.__init__.__qualname__ = f"{kind.__qualname__}.__init__"
    made.__init__.__annotations__ = {**kind.__annotations__, "return": None}
    return made  # type: ignore[no-any-return]


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
                dataclasses.fields(one)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass
