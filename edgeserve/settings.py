"""One reader of settings. A table is a frozen dataclass; bounds, variable and words stand beside each key.

A mistake is one ConfigError. It names the place (file and line, variable or flag), the value, what was expected, and
for an unknown key the nearest known one.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import reprlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from edgeserve.errors import ConfigError

ENV_PREFIX = "EDGESERVE_"
LARGEST = {int: 2**31 - 1, float: 1e9}
"""Upper bounds of keys that declare none: a 32-bit integer of C, and 31 years in seconds."""
UNITS = {
    **dict.fromkeys(("seconds", "timeout", "interval", "after"), "seconds"),
    "mb": "MB",
    "gb": "GB",
    "percent": "percent",
    "tokens": "tokens",
    "chars": "characters",
}
"""Units of numbers, by the last word of the key."""
NAMES = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}
BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
NOTHING: Mapping[str, Any] = MappingProxyType({})


def key(
    default: Any,
    *,
    env: str | None = None,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    special: Mapping[Any, str] = MappingProxyType({}),
    only: tuple[str, ...] = (),
    words: str = "",
    secret: bool = False,
) -> Any:
    """Declare a setting.

    Arguments:
        default   value where nothing else is given
        env       name of the variable, without prefix
        low, high smallest and largest value of a number, or of each number of a list
        choices   the words allowed; a Literal type declares its own
        special   numbers allowed outside the bounds, with their meaning: {0: "as many as memory allows"}. A text among
                  them is a word that may stand for a number, whose type is then a union: int | Literal["auto"]
        only      tables that have this key; none: every table of its dataclass
        words     description of the expected value, where type and bounds do not suffice
        secret    no message and no representation shows the value
    """
    bounds = {"low": low, "high": high, "choices": choices, "special": special, "words": words}
    return field(default=default, repr=not secret, metadata={"env": env, "only": only, **bounds})


def key_names(kind: type[Any], table: str) -> list[str]:
    """Names of the keys that ``kind`` declares for ``table``."""
    return [one.name for one in _keys(kind, table)]


_cached_hints = functools.cache(get_type_hints)


def _hints(kind: type[Any]) -> dict[str, Any]:
    """Types of the fields, evaluated once: each evaluation compiles every annotation."""
    return _cached_hints(kind)  # type: ignore[arg-type]  # mypy doubts that a type is hashable


def _keys(kind: type[Any], table: str) -> list[dataclasses.Field[Any]]:
    """Fields of a dataclass that are keys of the table. A field without metadata is no key."""
    declared = (one for one in dataclasses.fields(kind) if one.metadata)
    return [one for one in declared if not one.metadata.get("only") or table in one.metadata["only"]]


def unit(one: dataclasses.Field[Any]) -> str:
    """The unit of a key's value; empty where the number has none. A percentage of at most 1 is a share of 1."""
    found = UNITS.get(one.name.rpartition("_")[2], "")
    return "" if found == "percent" and one.metadata["high"] == 1 else found


@dataclass(frozen=True, slots=True)
class Source:
    """A settings file: its name and its text. An empty name: the values have no file."""

    name: str = ""
    text: str = field(default="", repr=False)

    def label(self, table: str, name: str | None = None) -> str:
        """Place and key for messages: "models.toml, line 4: [asr] threads"."""
        parts = (f"[{heading(table)}]" if table else "", '""' if name == "" else name)
        label = " ".join(filter(None, parts))
        return f"{self.place(table, name)}: {label}" if self.name else label

    def place(self, table: str, name: str | None = None) -> str:
        """The file, and the line on which a table, or its key, begins. ``table`` "": a key before all tables."""
        lines = self.text.split("\n")
        for start, line in enumerate(lines):
            if (_path(table)[-1] if name is None else name) in line and self._holds(
                lines[:start], table, name
            ) is False:
                ends = (self._holds(lines[:end], table, name) for end in range(start + 1, len(lines) + 1))
                if next((holds for holds in ends if holds is not None), False):
                    return f"{self.name}, line {start + 1}"
        return self.name

    def located(self, table: str, error: ConfigError) -> ConfigError:
        """The error about a key (``param``), with its place in the file."""
        return ConfigError(f"{self.place(table, error.param)}: {error.message}", param=error.param)

    @staticmethod
    def _holds(lines: Sequence[str], table: str, name: str | None) -> bool | None:
        """Whether these lines set a key of a table. None: the lines end within a value."""
        try:
            document = tomllib.loads("\n".join(lines))
        except ValueError:
            return None
        inside = inner(document, table) if table else document
        return inside is not None and (name is None or (isinstance(inside, dict) and name in inside))


def _path(table: str) -> tuple[str, ...]:
    """The keys that lead to a table: "models.a.b" is the table a.b of the table models."""
    outer, dot, name = table.partition(".")
    return (outer, name) if dot else (outer,)


def inner(document: Mapping[str, Any], table: str) -> Any:
    """The value of a table in a document; None where there is none."""
    found: Any = document
    for one in _path(table):
        found = found.get(one) if isinstance(found, Mapping) else None
    return found


def heading(table: str) -> str:
    """The words between the brackets of a table."""
    quoted = (one if re.fullmatch(r"[A-Za-z0-9_-]+", one) else f'"{one}"' for one in _path(table))
    return ".".join(quoted)


NO_FILE = Source()


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the tables of one ``source``. Flags win over variables, and variables over the file.

    Fields:
        flags   values by the name of their variable without prefix
        tables  known keys of all tables, for suggestions

    An empty variable counts as unset.
    """

    source: Source = NO_FILE
    environ: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, object] = field(default_factory=dict)
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def read(self, kind: type[Any], table: str, written: Mapping[str, Any]) -> dict[str, Any]:
        """Checked values of all given keys that ``kind`` declares. Raises ConfigError, also for an unknown key."""
        self.known(table, written, self.tables.get(table) or key_names(kind, table))
        return self.values(kind, table, written)

    def known(self, table: str, written: Mapping[str, object], names: Sequence[str]) -> None:
        """Raises ConfigError for the first key that is not in ``names``."""
        for name in written:
            if name not in names:
                is_key = table or not isinstance(written[name], Mapping)
                label = self.source.label(table, name) if is_key else self.source.label(name)
                hint = suggestion(table, name, {**self.tables, table: names})
                raise ConfigError(f"{label} is not a known setting; {hint}", param=name)

    def values(self, kind: type[Any], table: str, written: Mapping[str, Any], like: str = "") -> dict[str, Any]:
        """Checked values of all given keys that ``kind`` declares. Other keys are ignored.

        ``like``: the table whose keys this one has, where that is another one.
        """
        hints = _hints(kind)
        values = {}
        for one in _keys(kind, like or table):
            found = self.given(one.metadata["env"], hints[one.name]) if one.metadata["env"] else None
            if found is None and one.name in written:
                found = self.source.label(table, one.name), written[one.name]
            if found is not None:
                values[one.name] = self.checked(found, kind, one.name)
        return values

    def given(self, variable: str, hint: Any = str) -> tuple[str, Any] | None:
        """Name and value of a flag, else of a variable, in the type of ``hint``. None: neither is given."""
        if variable in self.flags:
            return f"--{variable.lower().replace('_', '-')}", self.flags[variable]
        if text := self.environ.get(ENV_PREFIX + variable, ""):
            return ENV_PREFIX + variable, _from_text(text, hint)
        return None

    def checked(self, found: tuple[str, Any], kind: type[Any], name: str) -> Any:
        """The checked value of the key ``name``. ``found``: place and value. Raises ConfigError."""
        (one,) = (one for one in dataclasses.fields(kind) if one.name == name)
        label, value = found
        hint = _hints(kind)[name]
        try:
            return _checked(value, hint, one.metadata)
        except ValueError as error:
            shown = shorten(error.args[1] if len(error.args) > 1 else value) if one.repr else "…"
            words = ", in ".join(filter(None, (error.args[0], unit(one))))
            raise ConfigError(f"{label} = {shown}: expected {words}", param=name) from None


def suggestion(table: str, name: str, tables: Mapping[str, Sequence[str]]) -> str:
    """The hint for an unknown key of a table ("" for an unknown table).

    1. The key exists in other tables: those.
    2. Keys of this table look like it: the nearest.
    3. Keys of other tables look like it: the nearest.
    4. Otherwise all keys of this table.
    """
    own = tables[table]
    others = {other: names for other, names in tables.items() if other != table}
    moved = [f"[{other}] {name}" for other, names in others.items() if name in names]
    near = [one if table else f"[{one}]" for one in _nearest(name, own)]
    close = [f"[{other}] {one}" for other, names in others.items() for one in _nearest(name, names)]
    for found in (moved, near, close):
        if found:
            return f"did you mean {' or '.join(filter(None, (', '.join(found[:-1]), found[-1])))}?"
    return f"expected one of: {', '.join(own)}"


def _nearest(name: str, names: Sequence[str]) -> list[str]:
    """The most similar names; several where they are equally similar, none where all differ too much."""
    near = difflib.get_close_matches(name, names, n=len(names) or 1)
    alike = [difflib.SequenceMatcher(None, one, name).ratio() for one in near]
    return [one for one, ratio in zip(near, alike, strict=True) if ratio >= max(alike) - 1e-9]


def shorten(value: object) -> str:
    """A value for a message. A long value is cut, and a huge number is not written out."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    try:
        return short.repr(value)
    except ValueError:  # Python spells out no more than 4,300 digits
        return "a number of thousands of digits"


def _from_text(text: str, hint: Any) -> object:
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


def _checked(value: Any, hint: Any, bounds: Mapping[str, Any]) -> Any:
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
    hints, values = _hints(kind), {}
    for name, given in value.items():
        try:
            values[name] = _checked(given, hints[name], declared[name].metadata)
        except ValueError as error:
            raise ValueError(f"{name}: {error.args[0]}") from None
    return kind(**values)


def _item(value: Any, hint: Any, bounds: Mapping[str, Any], words: str | None) -> Any:
    try:
        return _checked(value, hint, bounds)
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
