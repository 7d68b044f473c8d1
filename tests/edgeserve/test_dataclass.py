"""Lean dataclasses are those of ``dataclasses``, but for the time at which their methods are made."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
import sys
import threading
from collections.abc import Callable
from typing import Any, ClassVar  # noqa: F401 - a text names it

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.dataclass import FEW, dataclass, make_all

FLAGS = st.fixed_dictionaries({"frozen": st.booleans(), "eq": st.booleans()}).flatmap(
    lambda flags: st.booleans().map(lambda order: {**flags, "order": order and flags["eq"]})
)
NAMES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=4, unique=True)
METHODS = [
    "__init__",
    "__repr__",
    "__eq__",
    "__hash__",
    "__lt__",
    "__setattr__",
    "__delattr__",
    "__getstate__",
    "__setstate__",
    "__match_args__",
]


@dataclasses.dataclass(frozen=True)
class Shape:
    """A dataclass that ``pair`` writes. Fields from ``defaults`` on have defaults, the last one a factory."""

    names: list[str]
    defaults: int
    flags: dict[str, bool]

    def write(self, decorate: Callable[..., Any], *bases: type) -> Any:
        space: dict[str, Any] = {"__annotations__": dict.fromkeys(self.names, "object"), "__qualname__": "Shape.made"}
        for number, name in enumerate(self.names[self.defaults :]):
            space[name] = dataclasses.field(default_factory=list) if number % 2 else number
        return decorate(slots=True, **self.flags)(type("made", bases, {**space, "__module__": __name__}))


SHAPES = st.builds(Shape, NAMES, st.integers(0, 4), FLAGS)
VALUES = st.lists(st.integers(0, 2), max_size=4)


def outcome(ask: Callable[[], object]) -> object:
    """The result, or the kind and words of the error, without the name of the method's home."""
    try:
        return ask()
    except (TypeError, AttributeError) as error:
        return type(error), str(error).replace("Shape.made.", "")


def state(thing: Any) -> object:
    return [getattr(thing, one.name) for one in dataclasses.fields(thing)]


@given(SHAPES, VALUES, VALUES)
def test_objects_are_those_of_dataclasses(shape: Shape, one: list[int], other: list[int]) -> None:
    def asked(kind: Any, compiled: bool) -> list[object]:
        if compiled:
            assert callable(kind.__init__)
        found = [outcome(lambda: state(kind(*one)))]
        named = dict(zip(shape.names, one, strict=False))
        found += [outcome(lambda: state(kind(**named))), outcome(lambda: state(kind(*one, **named)))]
        found += [outcome(lambda: state(kind(*one[:1], unknown=1)))]
        try:
            first, second = kind(*one), kind(*other)
        except TypeError:
            return found
        asks: list[Callable[[], object]] = [
            lambda: repr(first),
            lambda: first == second,
            lambda: first == kind(*one),
            lambda: hash(first) == hash(kind(*one)),
            lambda: first < second,
            lambda: first >= second,
            lambda: kind.__match_args__,
            lambda: kind.__slots__,
            lambda: state(copy.copy(first)),
            lambda: dataclasses.asdict(first),
            lambda: [setattr(first, name, 7) for name in shape.names],
            lambda: state(first),
            lambda: [delattr(first, name) for name in shape.names],
            lambda: str(inspect.signature(kind)),
        ]
        return found + [outcome(ask) for ask in asks]

    for compiled in (False, True):
        assert asked(shape.write(dataclass), compiled) == asked(shape.write(dataclasses.dataclass), compiled)


@given(SHAPES, st.sampled_from(METHODS))
def test_each_method_may_be_asked_for_first(shape: Shape, name: str) -> None:
    lean, real = shape.write(dataclass), shape.write(dataclasses.dataclass)
    assert (getattr(lean, name, None) is None) is (getattr(real, name, None) is None)
    assert state_or_error(lean) == state_or_error(real)


def state_or_error(kind: Any) -> object:
    return outcome(lambda: state(kind(1)))


@dataclass(frozen=True, slots=True)
class Base:
    first: int
    second: str = "two"

    def __post_init__(self) -> None:
        assert self.first >= 0


@dataclass(frozen=True, slots=True)
class Derived(Base):
    third: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return "its own"


@dataclass(slots=True)
class Own:
    value: int

    def __init__(self, text: str) -> None:
        self.value = int(text)

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True, slots=True)
class Odd:
    given: int
    found: int = dataclasses.field(init=False)
    named: int = dataclasses.field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", 2 * self.given)


class Plain(Base):
    def __init__(self) -> None:
        super().__init__(3)


def test_a_derived_class_has_the_fields_of_its_base() -> None:
    derived = Derived(1, third=(2,))
    assert [one.name for one in dataclasses.fields(Derived)] == ["first", "second", "third"]
    assert (derived.first, derived.second, derived.third) == (1, "two", (2,))
    assert not hasattr(derived, "__dict__")
    assert repr(derived) == "its own"
    with pytest.raises(AssertionError):
        Derived(-1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        derived.third = ()  # type: ignore[misc]


def test_a_plain_class_may_call_the_methods_of_its_base() -> None:
    assert Plain().first == 3
    assert repr(Base(1)) == "Base(first=1, second='two')"


def test_fields_may_be_no_parameters_or_keywords_alone() -> None:
    odd = Odd(2, named=3)
    assert (odd.given, odd.found, odd.named) == (2, 4, 3)


def test_methods_of_the_class_stay() -> None:
    own = Own("5")
    assert (own.value, hash(own), own == 1) == (5, 7, True)


def test_objects_can_be_pickled_replaced_and_matched() -> None:
    base = Base(1, "x")
    assert pickle.loads(pickle.dumps(base)) == base
    assert dataclasses.replace(base, first=2) == Base(2, "x")
    match base:
        case Base(first, second):
            assert (first, second) == (1, "x")


def waiting_of(kind: type) -> set[str]:
    return {name for name, one in vars(kind).items() if type(one).__name__.startswith("_Later")}


def test_nothing_is_made_before_it_is_asked_for() -> None:
    made = Shape(["a", "b"], 1, {"frozen": True, "eq": True}).write(dataclass)
    waiting = waiting_of(made)
    assert {"__init__", "__eq__", "__repr__"} <= waiting
    objects = [made(1) for _ in range(FEW)]
    assert waiting_of(made) == waiting
    objects += [made(1), made(1)]
    assert waiting_of(made) == waiting - {"__init__"}
    assert [one.name for one in dataclasses.fields(made)] == ["a", "b"]
    assert len(set(objects)) == 1
    assert waiting_of(made) == set()


@pytest.mark.slow
def test_all_classes_of_all_modules_are_made_before_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Shape(["a"], 1, {"frozen": True}).write(dataclass)
    monkeypatch.setattr(sys.modules[__name__], "extra", made, raising=False)
    make_all()
    assert type(vars(made)["__init__"]).__name__ == "function"


def test_threads_that_ask_at_once_get_equal_methods() -> None:
    for _ in range(20):
        kind = Shape(["a"], 1, {"frozen": True}).write(dataclass)
        together, found = threading.Barrier(4), []

        def ask(kind: Any = kind, together: threading.Barrier = together, found: list[object] = found) -> None:
            together.wait()
            found.append(kind(1))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 1


@pytest.mark.parametrize("defaults", [{"a": []}, {"a": 1, "c": 2}])
def test_a_field_that_dataclasses_refuses_is_refused_at_the_first_use(defaults: dict[str, object]) -> None:
    space = {"__annotations__": {"a": "object", "b": "int", "c": "int"}, "__module__": __name__, **defaults}
    with pytest.raises((TypeError, ValueError)) as refused:
        dataclasses.dataclass(slots=True)(type("made", (), space))
    made = dataclass(slots=True)(type("made", (), space))
    with pytest.raises(refused.type, match=re.escape(str(refused.value))):
        made(1, 2, 3)


def test_an_annotation_that_is_no_field_is_refused() -> None:
    space = {"__annotations__": {"a": "int", "B": "ClassVar[int]"}, "B": 1, "__module__": __name__}
    made = dataclass(slots=True)(type("made", (), space))
    with pytest.raises(TypeError, match=r"made\.B is no field"):
        made(1)
