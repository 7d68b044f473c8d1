"""Records of declared fields: defaults, required fields, nesting, inheritance, variants and their JSON schema."""

from __future__ import annotations

from typing import Any

import pytest
from support.cases import each

from edgeserve.api.fields import MOST_IGNORED, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import File, Form, Object, Objects, Record, Strict, listed, read_variant
from edgeserve.api.values import Enum, Flag, Integer, Number, Text
from edgeserve.errors import InvalidRequest

LIMITS = Limits(unknown_fields="refuse")


class Point(Record):
    x = Integer("across", 0, 9, default=1)
    y = Number("down", 0, 9)


class Shape(Record):
    name = Text("of the shape", required=True)
    centre = Object("of the shape", Point, required=True)
    points = Objects("of the outline", Point)


class Coloured(Shape):
    OPEN = True
    filled = Flag("")
    colour = Enum("", ("red", "blue"), default="red")
    tags = Objects("", Point, empty=True, limit=2)


class Upload(Form):
    picture = File("a picture")


class Noted(Upload):
    note = Text("")


def read(**values: Any) -> Coloured:
    return Coloured(Fields({"name": "a", "centre": {}} | values), LIMITS)


def test_a_field_that_is_left_out_or_null_has_its_default() -> None:
    for shape in (read(), read(filled=None, colour=None, points=None, tags=None)):
        assert (shape.filled, shape.colour, shape.points, shape.tags) == (False, "red", (), ())
        assert (shape.centre.x, shape.centre.y) == (1, None)
        assert not shape.has("colour")


def test_given_fields_are_read() -> None:
    shape = read(filled=True, colour="blue", points=[{"x": 2}, {"y": 0.5}], tags=[])
    assert (shape.filled, shape.colour, shape.tags) == (True, "blue", ())
    assert [(one.x, one.y) for one in shape.points] == [(2, None), (1, 0.5)]
    assert shape.has("colour")


@each(
    ("values", "message"),
    [
        ({"name": None}, "name is required and must not be empty"),
        ({"centre": None}, "centre is required"),
        ({"centre": {"z": 1}}, "centre.z is not a known field; known are: x, y"),
        ({"points": []}, "points must be a list of at least one object"),
        ({"points": [{"x": 1}, {"x": 10}]}, "points[1].x must lie between 0 and 9, not 10"),
        ({"tags": [{}, {}, {}]}, "tags has 3 entries; the limit is 2"),
        ({"colour": "green"}, "colour must be red or blue, not 'green'"),
        ({"colour": ["red"]}, "colour must be a string, not a list"),
    ],
)
def test_an_error_names_its_field(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**values)
    assert caught.value.message == message
    assert caught.value.param == message.split()[0]


def test_an_open_record_takes_undeclared_fields() -> None:
    assert read(weight=3).name == "a"
    with pytest.raises(InvalidRequest, match="weight is not a known field"):
        Shape(Fields({"name": "a", "centre": {}, "weight": 3}), LIMITS)


def test_the_description_has_bounds_words_defaults_and_required_fields() -> None:
    described = Coloured.describe(LIMITS)
    assert described["required"] == ["name", "centre"]
    assert list(described["properties"]) == list(Coloured.FIELDS)
    assert "additionalProperties" not in described
    point = described["properties"]["points"]["oneOf"][0]["items"]
    assert point["additionalProperties"] is False
    number = {"type": "integer", "minimum": 0, "maximum": 9}
    assert point["properties"]["x"] == {
        "description": "across",
        "oneOf": [number, {"type": "null"}],
        "default": 1,
    }
    assert described["properties"]["centre"]["type"] == "object"  # it is required, so no null stands for it
    assert Point.x.describe(LIMITS) == {"description": "across", "default": 1} | number


def test_a_form_has_no_null() -> None:
    assert Noted.describe(LIMITS)["properties"]["note"] == {"type": "string"}


class Order(Strict):
    shape = Object("to be drawn", Shape)


def test_an_unknown_field_is_ignored_and_noted() -> None:
    given = {"name": "a", "colour": "red", "centre": {"z": 1}, "points": [{"x": 2}, {"w": 0, "y": 3}]}
    shape = Shape(Fields(given), Limits())
    assert shape.ignored == ("colour", "centre.z", "points[1].w")
    assert (shape.name, shape.points[1].y) == ("a", 3)
    assert "additionalProperties" not in Shape.describe(Limits())


def test_only_so_many_ignored_names_are_kept() -> None:
    many = {f"x{number}": 1 for number in range(2 * MOST_IGNORED)} | {"y" * 5000: 1}
    ignored = Shape(Fields({"name": "a", "centre": {}} | many), Limits()).ignored
    assert len(ignored) == MOST_IGNORED


@pytest.mark.parametrize("limits", [Limits(), LIMITS])
def test_an_order_takes_no_unknown_field(limits: Limits) -> None:
    with pytest.raises(InvalidRequest, match="colour is not a known field; known are: shape"):
        Order(Fields({"colour": "red"}), limits)
    assert Order.describe(limits)["additionalProperties"] is False


class Pair(Record):
    ANY_OF = ("left", "right")
    left = Text("")
    right = Objects("", Point, empty=True)


@pytest.mark.parametrize("values", [{}, {"left": " \n"}, {"left": None, "right": []}])
def test_one_of_several_fields_is_needed(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"^left is required and must not be empty; or give right instead$"):
        Pair(Fields(values), LIMITS)
    assert Pair(Fields(values | {"right": [{}]}), LIMITS).right[0].x == 1
    assert Pair(Fields(values | {"left": "a"}), LIMITS).left == "a"


def test_a_form_knows_its_file() -> None:
    assert Upload.file_name() == "picture"
    assert Upload(Fields({"picture": b"data"}, written=True), LIMITS).picture == b"data"


class Circle(Record):
    type = Enum("", ("circle",), required=True)
    radius = Integer("", 0, 9)


class Square(Record):
    type = Enum("", ("square",), required=True)


def test_the_type_of_an_object_chooses_its_record() -> None:
    variants: dict[str, type[Circle | Square]] = {"circle": Circle, "square": Square}
    assert isinstance(read_variant(Fields({"type": "square"}), variants, LIMITS), Square)
    with pytest.raises(InvalidRequest, match="type must be circle or square, not 'line'"):
        read_variant(Fields({"type": "line"}), variants, LIMITS)
    with pytest.raises(InvalidRequest, match="radius is not a known field; known are: type"):
        read_variant(Fields({"type": "square", "radius": 1}), variants, LIMITS)


@pytest.mark.parametrize(
    ("values", "text"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "one of a, b, c")]
)
def test_values_are_listed_as_they_are_offered(values: list[str], text: str) -> None:
    assert listed(values) == text
