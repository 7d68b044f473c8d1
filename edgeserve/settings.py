"""One reader of settings. A table is a frozen dataclass; bounds, variable and words stand beside each key.

A mistake is one ConfigError. It names the place (file and line, variable or flag), the value, what was expected, and
for an unknown key the nearest known one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.errors import ConfigError
from edgeserve.setting_values import checked, from_text, hints_of, shorten

ENV_PREFIX = "EDGESERVE_"
UNITS = {
    **dict.fromkeys(("seconds", "timeout", "interval", "after", "exit"), "seconds"),
    "mb": "MB",
    "gb": "GB",
    "percent": "percent",
    "tokens": "tokens",
    "chars": "characters",
}
"""Units of numbers, by the last word of the key."""


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
        import tomllib

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
                others = self.tables if is_key else {}  # the name of a table is no key of another one
                hint = suggestion(table, name, {**others, table: names})
                raise ConfigError(f"{label} is not a known setting; {hint}", param=name)

    def values(self, kind: type[Any], table: str, written: Mapping[str, Any], like: str = "") -> dict[str, Any]:
        """Checked values of all given keys that ``kind`` declares. Other keys are ignored.

        ``like``: the table whose keys this one has, where that is another one.
        """
        hints = hints_of(kind)
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
            return ENV_PREFIX + variable, from_text(text, hint)
        return None

    def checked(self, found: tuple[str, Any], kind: type[Any], name: str) -> Any:
        """The checked value of the key ``name``. ``found``: place and value. Raises ConfigError."""
        (one,) = (one for one in dataclasses.fields(kind) if one.name == name)
        label, value = found
        hint = hints_of(kind)[name]
        try:
            return checked(value, hint, one.metadata)
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
    import difflib  # for mistakes only

    near = difflib.get_close_matches(name, names, n=len(names) or 1)
    alike = [difflib.SequenceMatcher(None, one, name).ratio() for one in near]
    return [one for one, ratio in zip(near, alike, strict=True) if ratio >= max(alike) - 1e-9]
