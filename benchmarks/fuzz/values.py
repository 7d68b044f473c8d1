"""JSON values of a schema: some that follow it, some that nearly do, and some that no schema knows."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]
TEXTS = (
    *("", " ", "a", "hello there", "llm", "vision", "asr", "tts", "embedding", "rerank"),
    *("user", "assistant", "system", "tool"),
    *("90s", "5m", "0", "-1", "1h30m", "1e999", "nan", "mp3", "wav", "en", "ja", "xx", "auto", "none", "\0", "\x7f"),
    *("\u202eabc", "𐍈" * 40, "é\u0301", "x" * 5000, "{{ messages }}", "../../etc/passwd", "%00", "a\r\nb: c", "🎈"),
    *("data:image/png;base64,iVBORw0KGgo=", "data:image/png;base64,====", "data:,", "http://127.0.0.1:9/x.png"),
    *("http://[::1", "http://\x00", "attachment:a", "file:///etc/passwd", "call_1", "get_weather", '{"a": 1}'),
    *("word " * 200, "<|im_start|>", "\\", '"', "null", "true", "#", "af_heart", "alloy+echo", "af_heart(2)+af_sky"),
)
NUMBERS: Sequence[Any] = (
    *(0, 1, -1, 2, 3, 16, 255, 65_536, 2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, -(10**30)),
    *(0.0, -0.0, 0.5, 1.0, 1.5, 1e-320, 1e308, -1e308, 0.1 + 0.2),
)
ODD: Sequence[Any] = (None, True, False, [], {}, [[]], [None], {"": None}, {"type": None}, [{}], [[], {}], "", 0)
"""Values of every type, for places that want another."""
BARE = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-0", "01", "1.", ".5", "1e", "9" * 401, "9" * 5000, "0." + "1" * 500),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\u00"', '"\\x"', '"\t"', "'a'", "tru", "nul", "[1,]", '{"a":1,}', "//", ""),
    *("[" * 70 + "]" * 70, "[" * 5000, '{"a":' * 66 + "1" + "}" * 66, "[" + "0," * 2000 + "0]", '{"a":1,"a":2}'),
)
"""Texts in the place of a value. Most are no JSON."""
NULL = {"type": "null"}
NULLS = 0.1
"""Share of the values for which a null is drawn among the others, where the schema takes one."""
DEEP = 4
Dice = random.Random


def following(schema: Schema, whole: Schema, dice: Dice, depth: int = 0) -> Any:
    """A value that follows the schema, as far as its pattern is in ``TEXTS``. ``whole``: the document of its $ref."""
    schema = resolved(schema, whole)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return dice.choice(schema["enum"])
    if ways := schema.get("anyOf"):
        schema = _narrowed(schema, dice.choice(ways))
    if choices := schema.get("oneOf"):
        given = [one for one in choices if one != NULL] if dice.random() > NULLS else choices
        return following(dice.choice(given), whole, dice, depth)
    kinds = schema.get("type", ("string", "integer", "boolean", "null", "object"))
    kind = kinds if isinstance(kinds, str) else dice.choice(list(kinds))
    return MAKERS[kind](schema, whole, dice, depth)


def _narrowed(schema: Schema, way: Schema) -> Schema:
    """The schema of an object, and what one way of its ``anyOf`` asks beyond it."""
    properties = dict(schema["properties"])
    for name, one in way["properties"].items():
        if one == NULL:
            properties[name] = one
            continue
        more = {key: value for key, value in one.items() if key != "type"}
        choices = [{**two, **more} for two in properties[name].get("oneOf", ()) if two != NULL]
        properties[name] = {"oneOf": choices} if choices else {**properties[name], **more}
    return {**schema, "properties": properties, "required": [*schema.get("required", ()), *way.get("required", ())]}


def resolved(schema: Schema, whole: Schema) -> Schema:
    while "$ref" in schema:
        found: Any = whole
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    return schema


def _object(schema: Schema, whole: Schema, dice: Dice, depth: int) -> Any:
    names = schema.get("properties", {})
    wanted = set(schema.get("required", ()))
    share = dice.choice((0.0, 0.1, 0.3, 0.9)) if depth < DEEP else 0.0
    made = {name: one for name, one in names.items() if name in wanted or dice.random() < share}
    return {name: following(one, whole, dice, depth + 1) for name, one in made.items()}


def _array(schema: Schema, whole: Schema, dice: Dice, depth: int) -> Any:
    least, most = schema.get("minItems", 0), schema.get("maxItems", 8)
    count = max(least, min(most, dice.choice((0, 1, 1, 2, 3, 8))))
    return [following(schema.get("items", {}), whole, dice, depth + 1) for _ in range(count)]


def _string(schema: Schema, whole: Schema, dice: Dice, depth: int) -> Any:
    most, least = schema.get("maxLength", 1 << 20), schema.get("minLength", 0)
    pattern = re.compile(schema.get("pattern", ""))
    fitting = [one for one in TEXTS if least <= len(one) <= most and pattern.search(one)]
    return dice.choice(fitting or TEXTS)


def _integer(schema: Schema, whole: Schema, dice: Dice, depth: int) -> Any:
    least, most = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
    if dice.random() < 0.5:
        return dice.choice((least, most))
    return dice.randint(int(least), min(int(most), int(least) + 40))


def _number(schema: Schema, whole: Schema, dice: Dice, depth: int) -> Any:
    least, most = schema.get("minimum", -1e6), schema.get("maximum", 1e6)
    return dice.choice((least, most, dice.uniform(least, most)))


MAKERS: Mapping[str, Callable[[Schema, Schema, Dice, int], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": lambda schema, whole, dice, depth: dice.random() < 0.5,
    "null": lambda schema, whole, dice, depth: None,
}


def spoiled(value: Any, dice: Dice) -> Any:
    """The value with one to three places changed: a foreign value, a name too many, a name or an item too few."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        value = _spoil(value, dice)
    return value


def _spoil(value: Any, dice: Dice) -> Any:
    if isinstance(value, dict) and value and dice.random() < 0.8:
        name = dice.choice(list(value))
        way = dice.random()
        if way < 0.1:
            return {key: one for key, one in value.items() if key != name}
        if way < 0.2:
            return {**value, dice.choice(TEXTS): foreign(dice)}
        return {**value, name: _spoil(value[name], dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        at = dice.randrange(len(value))
        if dice.random() < 0.2:
            return value * dice.choice((0, 2, 3, 40))
        return [*value[:at], _spoil(value[at], dice), *value[at + 1 :]]
    return alike(value, dice) if dice.random() < 0.6 else foreign(dice)


def alike(value: Any, dice: Dice) -> Any:
    """Another value of the same type, which gets further than one that is foreign there."""
    if isinstance(value, str):
        return dice.choice((value * 40, value.upper(), value[: dice.randrange(len(value) + 1)], dice.choice(TEXTS)))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value if value is None else not value
    return dice.choice((value + 1, value - 1, -value, value * 1000, value + 0.5, dice.choice(NUMBERS)))


def foreign(dice: Dice) -> Any:
    return dice.choice(dice.choice((ODD, NUMBERS, TEXTS)))


def written(value: Any, dice: Dice) -> bytes:
    """The value as JSON, at times with one of its parts replaced by a text of ``BARE``, and at times in UTF-16."""
    text = json.dumps(value, ensure_ascii=dice.random() < 0.5)
    if dice.random() < 0.3:
        ends = [found.end() for found in re.finditer(r"[:,\[] ?", text)]
        start = dice.choice(ends or [0])
        end = re.compile(r"[,\]}]|$").search(text, start)
        text = text[:start] + dice.choice(BARE) + text[end.start() if end else len(text) :]
    data = text.encode("utf-8", "surrogatepass")
    way = dice.random()
    if way < 0.02:
        return text.encode("utf-16", "surrogatepass")
    return b"\xef\xbb\xbf" + data if way < 0.04 else data
