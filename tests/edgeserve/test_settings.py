"""The reader of settings: a mistake names file, line, key and the nearest known key."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from pathlib import Path
from typing import get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples
from support.settings import KEYS, KINDS, NAMES, OTHER_TYPES, Key, Written, mistake

from edgeserve import config
from edgeserve.errors import ConfigError
from edgeserve.jobs import ALL_JOBS
from edgeserve.setting_values import LARGEST
from edgeserve.settings import ENV_PREFIX, Source

keys = st.sampled_from(KEYS)
NOISE = ["", "# {name} = 1", "#[{table}]", "   ", "# [{table}] {name}"]


def wrong(key: Key) -> st.SearchStrategy[str]:
    """TOML of a value that the key must not take."""
    if key.number is None:
        plain = key.hint if key.hint in OTHER_TYPES else str
        words = ['"loud"', '""', '"Auto"'] if key.bounds.get("choices") or get_origin(key.hint) is not None else []
        listed = [f"[{words[0]}]"] if words and get_origin(key.hint) is tuple and key.bounds["choices"] else []
        if get_origin(key.hint) is tuple and not key.bounds["choices"]:
            words = []
        return st.sampled_from(OTHER_TYPES[plain] + words + listed)
    low, high = key.bounds.get("low"), key.bounds.get("high")
    bottom = -LARGEST[key.number] if low is None else low
    top = LARGEST[key.number] if high is None else high
    beyond = [math.floor(bottom) - 2, math.ceil(top) + 1, 10**30, -(10**30), 10**400 if key.number is int else 10**20]
    outside = st.sampled_from([str(one) for one in beyond])
    if get_origin(key.hint) is tuple:
        return st.sampled_from([f"[1, {one}]" for one in ("-1", '"a"', "nan", "inf", "true")] + ["3", '"a"', "true"])
    return outside | st.sampled_from(OTHER_TYPES[key.number])


@st.composite
def written(draw: st.DrawFn, table: str, name: str, value: str) -> Written:
    """A settings file that sets this key, in one of the ways that TOML has, between lines that look like it."""
    noise = st.lists(st.sampled_from(NOISE), max_size=2).map(
        lambda lines: [one.format(table=table, name=name) for one in lines]
    )
    needed = ['model = "x"'] if table in ALL_JOBS and name != "model" else []
    quoted = draw(st.sampled_from([name, f'"{name}"', f"'{name}'"]))
    other = "asr" if table != "asr" else "tts"
    before = draw(st.sampled_from([[], [f"[{other}]", 'model = """', f"[{table}]", f"{name} = {value!r}", '"""']]))
    before = [*draw(noise), *before, *draw(noise)]
    form = draw(st.sampled_from(["table", "inline"] if before[:1] else ["table", "dotted", "inline"]))
    if form == "dotted":
        lines = [*(f"{table}.{one}" for one in needed), f"{table}.{quoted} = {value}"]
        return Written("\n".join(lines), len(lines))
    if form == "inline" and not any(one.startswith("[") for one in before):
        lines = [*before, f"{table} = {{{', '.join([*needed, f'{quoted} = {value}'])}}}"]
        return Written("\n".join(lines), len(lines))
    lines = [*before, f"[{table}]", *needed, *draw(noise), f"{quoted} = {value}"]
    return Written("\n".join([*lines, *draw(noise)]), len(lines))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings") / "models.toml"


@pytest.mark.slow
@examples(200)
@given(data=st.data())
def test_a_wrong_value_is_refused_with_its_line_and_key(data: st.DataObject, file: Path) -> None:
    key = data.draw(keys)
    found = data.draw(wrong(key).flatmap(lambda value: written(key.table, key.name, value)))
    told = mistake(file, found.text)
    where = f"{file}, line {found.line}: [{key.table}] {key.name} = "
    if key.name == "model" and told.startswith(f"{file}, line"):
        assert "expected a text in quotes" in told or "names no model" in told
    else:
        assert told.startswith(where), told
        assert ": expected " in told
    assert len(told) < len(str(file)) + 600


def misspelt(draw: st.DrawFn, name: str) -> str:
    at = draw(st.integers(0, len(name) - 1))
    letter = draw(st.sampled_from("aeiknorstxz_"))
    return draw(
        st.sampled_from(
            [
                name[:at] + name[at + 1 :],
                name[:at] + letter + name[at:],
                name[:at] + letter + name[at + 1 :],
                name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
            ]
        )
    )


@st.composite
def misspellings(draw: st.DrawFn) -> tuple[Key, str]:
    key = draw(keys)
    return key, misspelt(draw, key.name)


@pytest.mark.slow
@examples(200)
@given(data=st.data())
def test_a_misspelt_key_is_refused_with_the_right_one(data: st.DataObject, file: Path) -> None:
    known = {name for names in NAMES.values() for name in names}
    key, name = data.draw(misspellings().filter(lambda pair: pair[1] and pair[1] not in known))
    found = data.draw(written(key.table, name, "1"))
    told = mistake(file, found.text)
    assert told.startswith(f"{file}, line {found.line}: [{key.table}] {name} is not a known setting; did you mean "), (
        told
    )

    def alike(one: str) -> float:
        return difflib.SequenceMatcher(None, one, name).ratio()

    suggested = told.partition("did you mean ")[2].rstrip("?").replace(" or ", ", ").split(", ")
    # Where a letter less makes two keys look the same, the other one may look even nearer.
    assert key.name in suggested or all(alike(one) > alike(key.name) for one in suggested), told


@pytest.mark.slow
@given(data=st.data())
def test_a_key_of_another_table_is_refused_with_the_right_table(data: st.DataObject, file: Path) -> None:
    key = data.draw(keys)
    strangers = [table for table, names in NAMES.items() if key.name not in names]
    if not strangers:
        return
    table = data.draw(st.sampled_from(strangers))
    found = data.draw(written(table, key.name, "1"))
    told = mistake(file, found.text)
    assert told.startswith(f"{file}, line {found.line}: [{table}] {key.name} is not a known setting; did you mean "), (
        told
    )
    assert all(f"[{home}] {key.name}" in told for home, names in NAMES.items() if key.name in names)


def test_each_default_lies_within_its_bounds(file: Path) -> None:
    """A table that spells out its defaults is accepted: no default is one that the reader would refuse."""
    for key in KEYS:
        (kind,) = (kind for kind in KINDS[key.table] if key.name in {one.name for one in dataclasses.fields(kind)})
        value = json.dumps(getattr(kind(), key.name))  # of these types TOML writes the same
        lines = [f"[{key.table}]", *(['model = "x"'] if key.table in ALL_JOBS and key.name != "model" else [])]
        lines += ['model = "x"' if key.name == "model" else f"{key.name} = {value}"]
        file.write_text("\n".join(lines), encoding="utf-8")
        config.load({}, path=file)


VARIABLES = [key for key in KEYS if key.bounds["env"] and (key.number or key.hint is bool or key.bounds["choices"])]


@given(
    key=st.sampled_from(VARIABLES),
    text=st.sampled_from(["x", "nan", "inf", "-1e30", "1" + "0" * 5000, "-7", "1,5", " "]),
)
def test_a_wrong_variable_names_itself(key: Key, text: str, file: Path) -> None:
    file.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config.load({ENV_PREFIX + key.bounds["env"]: text}, path=file)
    told = caught.value.message
    assert told.startswith(f"{ENV_PREFIX}{key.bounds['env']} = ")
    assert ": expected " in told
    assert len(told) < 300


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"PORT": 70_000}, r"^--port = 70000: expected a whole number from 0 to 65535$"),
        ({"IDLE_TIMEOUT": math.nan}, r"^--idle-timeout = nan: expected a number from 0 to 1000000000, in seconds$"),
        ({"IDLE_TIMEOUT": math.inf}, r"^--idle-timeout = inf: expected a number from 0 to 1000000000, in seconds$"),
        ({"PRELOAD": "ttt"}, r"^--preload = 'ttt': expected all, or a list of llm, asr, tts$"),
        ({"DEVICE": "tpu"}, r"^--device = 'tpu': expected one of auto, cpu, cuda, metal$"),
        ({"MMPROJ": "p.gguf"}, r"^--mmproj is given without a vision model"),
    ],
)
def test_a_wrong_flag_names_itself(
    flags: dict[str, object], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=told):
        config.load({}, flags=flags)


def test_an_empty_variable_counts_as_unset(file: Path) -> None:
    file.write_text('[server]\nport = 9\napi_key = "sesame"\n', encoding="utf-8")
    unset = {ENV_PREFIX + name: "" for name in ("PORT", "API_KEY", "LLM", "DEVICE", "PRELOAD", "OS_RESERVE")}
    assert config.load(unset, path=file) == config.load({}, path=file)


@each(
    ("text", "told"),
    [
        ("port = 1\n", r"line 1: port is not a known setting; did you mean \[server\] port\?"),
        ("[server]\n[[llm]]\n", r"line 2: \[llm\] must be a table, not \[\{\}\]"),
        ("[memory]\nhigh_percent = 10\n", r"line 1: \[memory\] pressure levels must rise"),
        ("[server]\napi_key = 12345\n", r"\[server\] api_key = …: expected a text in quotes"),
        ('[llm]\nmodel = "x"\nmmproj = "y"\n', r"line 3: \[llm\] mmproj is not a known .*\[vision\] mmproj\?"),
        ("[server]\nzzzzzzzz = 1\n", "expected one of: host, port"),
        (f"[server]\nport = {'9' * 5000}\n", "not valid TOML"),
        (f"[server]\nport = 0x{'f' * 5000}\n", "line 2: .* a number of thousands of digits: expected a whole number"),
        (f"x = {'[' * 3000}\n", "not valid TOML"),
        ("[server]\nport = 1\0\n", "not valid TOML"),
        ("[server]\r\n\r\nport = -1\r\n", "line 3: .*port = -1"),
        ("\ufeff[server]\nport = -1\n", "line 2: .*port = -1"),
    ],
)
def test_other_mistakes(text: str, told: str, file: Path) -> None:
    file.write_bytes(text.encode())
    with pytest.raises(ConfigError, match=told):
        config.load({}, path=file)


def test_a_value_of_several_lines_has_the_line_on_which_it_begins() -> None:
    source = Source(
        "m", "[llm]\n# tensor_split\ntensor_split = [\n  1,\n  2,\n]\nsystem = '''\nthreads = 1\n'''\nthreads = 2"
    )
    assert source.place("llm", "tensor_split") == "m, line 3"
    assert source.place("llm", "threads") == "m, line 10"
    assert source.place("llm", "nowhere") == "m"
    assert source.place("llm") == "m, line 1"


@pytest.mark.parametrize(
    ("content", "told"),
    [(b'[server]\nhost = "\xff"\n', "line 2: not valid UTF-8"), (b"\xff\xfe[\0", "line 1: not valid UTF-8")],
)
def test_a_file_that_is_not_utf8(file: Path, content: bytes, told: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        config.load({}, path=file)


def test_a_folder_and_a_missing_home(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory; expected the server's models\.toml"):
        config.load({}, path=tmp_path)
    with pytest.raises(ConfigError, match=r"EDGESERVE_CONFIG = '~nobody-here/x': .*; write the whole path"):
        config.load({"EDGESERVE_CONFIG": "~nobody-here/x"})
