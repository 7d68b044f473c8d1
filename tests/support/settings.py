"""Every key of every settings table, files that set one, and the message of a mistake."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from edgeserve import config
from edgeserve.config import ResidencySettings, ServerSettings
from edgeserve.errors import ConfigError
from edgeserve.jobs import ALL_JOBS
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.model_settings import ModelSettings
from edgeserve.setting_values import LARGEST

KINDS: dict[str, list[type[Any]]] = {
    "server": [ServerSettings],
    "residency": [ResidencySettings],
    "memory": [MemoryPolicy],
    **{job: [ModelSettings, config.options_of(job)] for job in ALL_JOBS},
}
NAMES = config.tables()


@dataclasses.dataclass(frozen=True)
class Key:
    table: str
    name: str
    hint: Any
    bounds: Any

    @property
    def number(self) -> type | None:
        plain = get_args(self.hint)[0] if get_origin(self.hint) is tuple else self.hint
        return plain if plain in LARGEST else None


def all_keys() -> Iterator[Key]:
    for table, kinds in KINDS.items():
        for kind in kinds:
            hints = get_type_hints(kind)
            for one in dataclasses.fields(kind):
                if one.name in NAMES[table]:
                    hint = hints[one.name]
                    # A word that may stand for a number is among the bounds' "special".
                    plain = get_args(hint)[0] if get_origin(hint) in (Union, UnionType) else hint
                    yield Key(table, one.name, plain, one.metadata)


KEYS = list(all_keys())
OTHER_TYPES = {
    int: ["1.5", '"7"', "true", "[1]", "{a = 1}", "1979-05-27", "nan", "inf"],
    float: ['"7"', "false", "[1.0]", "07:32:00", "nan", "-nan", "inf", "-inf"],
    bool: ["1", "0", '"true"', "0.5", "[true]"],
    str: ["3", "1.5", "true", "1979-05-27", "{a = 1}", '"\\u0000"', "[3]"],
}


@dataclasses.dataclass(frozen=True)
class Written:
    text: str
    line: int


def setting(table: str, name: str, value: str, *before: str) -> Written:
    """A file with a comment, the table, other lines of it, and the key on its last line."""
    needed = ['model = "x"'] if (table in ALL_JOBS or before) and name != "model" else []
    lines = ["# settings", f"[{table}]", *before, *needed, f"{name} = {value}"]
    return Written("\n".join(lines), len(lines))


def mistake(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config.load({}, path=file)
    return caught.value.message
