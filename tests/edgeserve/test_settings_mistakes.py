"""Each key of each table refuses each kind of wrong value; the message names file, line, table and key."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from support.settings import KEYS, KINDS, NAMES, OTHER_TYPES, Key, mistake, setting

from edgeserve.jobs import ALL_JOBS
from edgeserve.setting_values import LARGEST


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings") / "models.toml"


TABLES = pytest.mark.parametrize("table", KINDS)


def wrong_values(key: Key) -> Iterator[str]:
    """TOML that the key must not take: every other type, and numbers outside of its bounds."""
    listed = get_origin(key.hint) is tuple
    plain = get_args(key.hint)[0] if listed else key.hint
    if listed and key.number:
        yield from ("3", '"a"', "true", "[nan]", "[inf]", "[-1]", '["a"]', "[1, true]", "[[1]]")
        return
    yield from OTHER_TYPES.get(plain, OTHER_TYPES[str])
    if key.number:
        bottom, top = key.bounds["low"], key.bounds["high"]
        yield str(math.floor(-LARGEST[key.number] if bottom is None else bottom) - 2)
        yield str(math.ceil(LARGEST[key.number] if top is None else top) + 1)
    if key.bounds["choices"] or get_origin(key.hint) is Literal:
        yield '"loud"'


@pytest.mark.slow
@TABLES
def test_each_key_refuses_each_wrong_value_and_names_its_line(table: str, file: Path) -> None:
    for key in (one for one in KEYS if one.table == table):
        for value in wrong_values(key):
            found = setting(table, key.name, value)
            told = mistake(file, found.text)
            assert told.startswith(f"{file}, line {found.line}: [{table}] {key.name} = "), told
            assert ": expected " in told, told


@pytest.mark.slow
@pytest.mark.parametrize("job", ALL_JOBS)
def test_each_key_of_a_named_model_refuses_each_wrong_value_and_names_its_line(job: str, file: Path) -> None:
    for key in (one for one in KEYS if one.table == job):
        for value in wrong_values(key):
            found = setting("models.b", key.name, value, f'job = "{job}"')
            told = mistake(file, found.text)
            assert told.startswith(f"{file}, line {found.line}: [models.b] {key.name} = "), told
            assert ": expected " in told, told


@pytest.mark.slow
@pytest.mark.parametrize("job", ALL_JOBS)
def test_each_key_that_a_named_model_lacks_names_its_line(job: str, file: Path) -> None:
    for name in sorted({key.name for key in KEYS} - set(NAMES[job])):
        found = setting("models.b", name, "1", f'job = "{job}"')
        told = mistake(file, found.text)
        assert told.startswith(f"{file}, line {found.line}: [models.b] {name} is "), told


@pytest.mark.slow
@TABLES
def test_each_key_of_another_table_names_its_line_and_its_table(table: str, file: Path) -> None:
    for name in sorted({key.name for key in KEYS} - set(NAMES[table])):
        homes = [home for home, names in NAMES.items() if name in names]
        found = setting(table, name, "1")
        told = mistake(file, found.text)
        assert told.startswith(f"{file}, line {found.line}: [{table}] {name} is not a known setting; "), told
        assert all(f"[{home}] {name}" in told for home in homes), told


@TABLES
def test_each_table_refuses_an_unknown_key_and_names_its_line(table: str, file: Path) -> None:
    for name in ("zzzzzzzz", '"with space"', "model_", '""'):
        found = setting(table, name, "1")
        assert mistake(file, found.text).startswith(f"{file}, line {found.line}: [{table}] ")


@TABLES
def test_each_table_that_is_no_table_names_its_line(table: str, file: Path) -> None:
    for value in ("nan", "inf", "-inf", "1", "[]", "[{}]", "true", '"text"'):
        told = mistake(file, f"# settings\n{table} = {value}")
        assert told.startswith(f"{file}, line 2: [{table}] must be a table"), (value, told)
