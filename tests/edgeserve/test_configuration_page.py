"""docs/configuration.md and the comments of models.toml agree with the reader about every key."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from support.cases import each

from edgeserve import config
from edgeserve.config import ResidencySettings, ServerSettings
from edgeserve.jobs import ALL_JOBS, INFO, STARTER
from edgeserve.manage.changes import OF_MODELS, TUNABLE
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.model_settings import AdapterSettings, ModelSettings
from edgeserve.settings import ENV_PREFIX, key_names, unit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
TEMPLATE = (ROOT / "models.toml").read_text(encoding="utf-8")

LLAMA, ASR, TTS = (config.options_of(job) for job in ("llm", "asr", "tts"))
SECTIONS: Mapping[str, type[Any]] = {
    "[server]": ServerSettings,
    "[residency]": ResidencySettings,
    "[memory]": MemoryPolicy,
    "Keys of every engine": ModelSettings,
    "Keys of llama.cpp": LLAMA,
    "Keys of [asr]": ASR,
    "Keys of [tts]": TTS,
}
"""Headings of the page, and the keys whose table comes next."""
SYMBOLS = {"seconds": "s", "percent": "%", "characters": "chars"}


def rows(heading: str) -> dict[str, dict[str, str]]:
    """Rows of the first table below a heading: key → cell by name of its column."""
    found = re.search(rf"^#+ {re.escape(heading)}$.*?\n\n(\|.*?)\n(?!\|)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no table below {heading}"
    head, _, *lines = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines())
    return {cells[0].strip("`"): dict(zip(head, cells, strict=True)) for cells in lines}


def declared(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    return [one for one in dataclasses.fields(kind) if one.metadata]


each_section = pytest.mark.parametrize("heading", SECTIONS)


def values(one: dataclasses.Field[Any], hint: Any) -> str:
    """The cell that says which values a key takes."""
    choices = one.metadata["choices"] or (get_args(hint) if get_origin(hint) is Literal else ())
    words = ", ".join(f'`"{choice}"`' for choice in choices)
    if get_origin(hint) is tuple:
        return f"list of {words or {str: 'texts', float: 'numbers', AdapterSettings: 'tables'}[get_args(hint)[0]]}"
    if hint is bool:
        return "`true`, `false`"
    if words or hint is str:
        return words or "text"
    low, high = one.metadata["low"], one.metadata["high"]
    special = [f'"{other}"' if isinstance(other, str) else f"{other:g}" for other in one.metadata["special"]]
    bounds = f"at least {low:g}" if high is None else f"{low:g} to {high:.15g}"
    found = unit(one)
    return f"{bounds} {SYMBOLS.get(found, found)}".strip() + "".join(f", or {other}" for other in special)


def toml(value: str) -> object:
    return tomllib.loads(f"value = {value}")["value"]


def plain(default: object) -> object:
    return list(default) if isinstance(default, tuple) else default


@each_section
def test_the_page_has_a_row_for_each_key_and_for_nothing_else(heading: str) -> None:
    assert set(rows(heading)) == {one.name for one in declared(SECTIONS[heading])}


@each_section
def test_the_page_says_values_and_default(heading: str) -> None:
    told = {name: (row["values"], toml(row["default"].strip("`"))) for name, row in rows(heading).items()}
    kind = SECTIONS[heading]
    hints = get_type_hints(kind)
    assert told == {one.name: (values(one, hints[one.name]), plain(one.default)) for one in declared(kind)}


@each_section
def test_the_page_says_variable_and_tables(heading: str) -> None:
    told = {name: (row.get("variable", "–"), row.get("tables", "all")) for name, row in rows(heading).items()}
    assert told == {one.name: (variable(one), tables(one)) for one in declared(SECTIONS[heading])}


def variable(one: dataclasses.Field[Any]) -> str:
    """The cell that names the key's variable."""
    return f"`{ENV_PREFIX}{one.metadata['env']}`" if one.metadata["env"] else "–"


def tables(one: dataclasses.Field[Any]) -> str:
    """The cell that names the tables with the key."""
    return " ".join(f"[{table}]" for table in one.metadata["only"]) or "all"


def test_the_page_names_every_flag_and_variable_of_the_engines() -> None:
    pairs = {job.flag: job.variable for job in INFO.values()} | {"--mmproj": "MMPROJ"}
    pairs |= {"--device": "DEVICE", "--preload": "PRELOAD"}
    found = re.findall(rf"\| `(--[\w-]+)` \| `{ENV_PREFIX}(\w+)` \|", PAGE)
    assert dict(found) == pairs


def in_template() -> dict[str, dict[str, object]]:
    """Keys with their values in models.toml, in comments too, by table; keys of every engine under "engine"."""
    table, found = "", dict[str, dict[str, object]]()
    for line in TEMPLATE.splitlines():
        if opening := re.match(r"(?:# )?\[(\w+)\]", line):
            table = opening[1]
        elif line.startswith("# Every engine has these keys"):
            table = "engine"
        elif re.match(r"(# )?\w+ = ", line):
            found.setdefault(table, {}).update(tomllib.loads(line.removeprefix("# ")))
    return found


def defaults(kind: type[Any], table: str) -> dict[str, object]:
    names = key_names(kind, table)
    return {one.name: plain(one.default) for one in dataclasses.fields(kind) if one.name in names}


def expected() -> dict[str, dict[str, object]]:
    served = {"server": ServerSettings, "residency": ResidencySettings, "memory": MemoryPolicy}
    found = {table: defaults(kind, table) for table, kind in served.items()}
    found["engine"] = {name: value for name, value in defaults(ModelSettings, "llm").items() if name != "model"}
    options: dict[str, Callable[[], dict[str, object]]] = {
        "llm": lambda: defaults(LLAMA, "llm"),
        "vision": lambda: {
            name: value
            for name, value in (defaults(LLAMA, "vision") | defaults(ModelSettings, "vision")).items()
            if name not in defaults(LLAMA, "llm") | defaults(ModelSettings, "llm")
        },
        "asr": lambda: defaults(ASR, "asr"),
        "tts": lambda: defaults(TTS, "tts"),
        "embedding": dict,  # its keys are named in a comment
        "rerank": dict,
        "speaker": dict,
    }
    return found | {job: {"model": INFO[job].example, **options[job]()} for job in ALL_JOBS}


@each("table", expected())
def test_the_template_shows_each_key_with_its_default(table: str) -> None:
    assert in_template()[table] == expected()[table]


def test_the_template_has_no_other_table() -> None:
    assert set(in_template()) == set(expected())


def test_the_template_names_the_keys_of_embedding() -> None:
    words = TEMPLATE.partition("# [embedding]")[2].partition("too:")[2].partition("# model")[0]
    assert re.findall(r"\w+", words) == key_names(LLAMA, "embedding")


def test_the_template_serves_the_starter_models_with_all_defaults() -> None:
    read = config.load({}, path=ROOT / "models.toml")
    assert read == dataclasses.replace(config.load({}), source=read.source, written=read.written)
    assert {job: one.model for job, one in read.models.items()} == dict(STARTER)


def test_the_lines_of_the_template_are_short() -> None:
    assert [line for line in TEMPLATE.splitlines() if len(line) > 100] == []


def test_the_page_names_the_keys_that_change_while_the_server_runs() -> None:
    keys = "keys that change while the server runs"
    told = {table: set(re.findall(r"`(\w+)`", row[keys])) for table, row in rows("Keys that change").items()}
    memory = {one.name for one in declared(MemoryPolicy)} - told.pop("[memory]")
    assert told.pop("of a model") == OF_MODELS
    assert told | {"[memory]": memory} == {f"[{table}]": set(names) for table, names in TUNABLE.items()}
