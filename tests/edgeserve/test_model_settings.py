"""[models.NAME]: names, jobs, aliases and defaults, and the place of each mistake."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from edgeserve import config
from edgeserve.errors import ConfigError

BOTH = '[llm]\nmodel = "a"\n[models.b]\nmodel = "b"\n'


def read(folder: Path, text: str) -> config.Config:
    path = folder / "models.toml"
    path.write_text(text, encoding="utf-8")
    return config.load({}, path=path)


def test_any_number_of_models_stands_beside_the_short_form(tmp_path: Path) -> None:
    text = BOTH + '[models."org/c:q4"]\njob = "asr"\nmodel = "w"\nkeep_alive = "1h"\nfamily = "whisper"\n'
    models = read(tmp_path, text).models
    assert {name: (one.job, one.model) for name, one in models.items()} == {
        "llm": ("llm", "a"), "b": ("llm", "b"), "org/c:q4": ("asr", "w"),
    }  # fmt: skip
    assert (models["org/c:q4"].idle_seconds, models["b"].idle_seconds) == (3600, None)
    assert models["org/c:q4"].options == {"family": "whisper"}


def test_a_negative_keep_alive_stays(tmp_path: Path) -> None:
    assert read(tmp_path, '[llm]\nmodel = "a"\nkeep_alive = "-1"\n').models["llm"].idle_seconds == math.inf


def test_a_label_finds_the_line_of_a_named_table(tmp_path: Path) -> None:
    found = read(tmp_path, BOTH)
    assert found.label("models.b", "model") == f"{tmp_path / 'models.toml'}, line 4: [models.b] model"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('[models.b]\njob = "asr"\n', r"line 3: \[models.b\] names no model"),
        ('[models.b]\nmodel = "b"\njob = "cook"\n', r"line 5: \[models.b\] job = 'cook': expected one of llm, vision"),
        ('[models.b]\nmodel = "b"\nlanguage = "en"\n', r"line 5: \[models.b\] language is not a known setting"),
        ('[models.b]\nmodel = "b"\ncontext = 1\n', r"line 5: \[models.b\] context = 1: expected"),
        ('[models.b]\nmodel = "b"\nkeep_alive = "soon"\n', r"line 5: \[models.b\] keep_alive = 'soon': expected"),
        ('[models."a b"]\nmodel = "b"\n', r'line 3: \[models."a b"\]: a model\'s name has'),
        ('[models."a.b"]\nmodel = 1\n', r'line 4: \[models."a.b"\] model = 1: expected'),
        ('[models.asr]\nmodel = "b"\n', r"line 3: \[models.asr\]: the table of this model is \[asr\]"),
        ('[models.server]\nmodel = "b"\n', r"line 3: \[models.server\]: .* another name"),
        ('[models.ASR]\nmodel = "b"\n', r"line 3: \[models.ASR\]: the table of this model is \[asr\]"),
        (
            '[models.b]\nmodel = "b"\n[models.B]\nmodel = "c"\n',
            r"line 5: \[models.B\]: \[models.b\] has this name already; capitals make no difference",
        ),
        (
            '[models.b]\nmodel = "b"\nvad = false\n',
            r"line 5: \[models.b\] vad is no key of a model with job = 'llm': take it out, or set job = \"asr\"$",
        ),
        ("[models]\nb = 1\n", r"line 4: \[models\] b must be a table, not 1"),
        (
            '[models.b]\nmodel = "b"\naliases = ["X"]\n[models.c]\nmodel = "c"\naliases = ["y", "x"]\n',
            r"line 8: \[models.c\] aliases: the alias 'x' of llm is \[models.b\] already",
        ),
        (
            '[models.b]\nmodel = "b"\naliases = ["gpt-*", "C"]\n[models.c]\nmodel = "c"\n',
            r"line 5: \[models.b\] aliases: 'c' is the name of \[models.c\]; choose another alias",
        ),
        (
            '[models.b]\nmodel = "b"\naliases = ["ASR"]\n[asr]\nmodel = "c"\n',
            r"line 5: \[models.b\] aliases: 'asr' is the name of \[asr\]; choose another alias",
        ),
        (
            '[models.b]\nmodel = "b"\naliases = ["A"]\n',
            r"line 5: \[models.b\] aliases: 'a' is the model of \[llm\], and means that; choose another alias",
        ),
        (
            '[models.b]\nmodel = "b"\naliases = ["gpt-*"]\n[models.c]\nmodel = "c"\naliases = ["GPT-*"]\n',
            r"line 8: \[models.c\] aliases: the alias 'gpt-\*' of llm is \[models.b\] already",
        ),
        (
            '[models.b]\nmodel = "b"\ndefault = true\n[models.c]\nmodel = "c"\ndefault = true\n',
            r"line 8: \[models.c\] default: the default of llm is \[models.b\] already",
        ),
        (f'[models.b]\nmodel = "b"\naliases = {["x"] * 65}\n', r"aliases: 65 names; a model may have 64"),
        (f'[models.b]\nmodel = "b"\naliases = ["{"x" * 121}"]\n', r"aliases: 'x+\.\.\.x+' has 121 characters; a name"),
    ],
)
def test_a_mistake_names_its_place(tmp_path: Path, more: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(tmp_path, '[llm]\nmodel = "a"\n' + more)


def test_models_of_different_jobs_may_share_an_alias(tmp_path: Path) -> None:
    tables = (f'[{job}]\nmodel = "of-{job}"\naliases = ["gpt-4o"]\n' for job in ("llm", "vision"))
    models = read(tmp_path, "".join(tables)).models
    assert [one.aliases for one in models.values()] == [("gpt-4o",), ("gpt-4o",)]


def test_a_job_is_only_named_by_tables_of_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[llm\] job is not a known setting"):
        read(tmp_path, '[llm]\nmodel = "a"\njob = "llm"\n')


def test_adapters_of_a_model(tmp_path: Path) -> None:
    text = '[models.b]\nmodel = "b"\nadapters = [{path = "x.gguf", scale = 2, name = "style"}, {path = "y.gguf"}]\n'
    one, other = read(tmp_path, text).models["b"].adapters
    assert (one.path, one.scale, one.name) == ("x.gguf", 2.0, "style")
    assert (other.path, other.scale, other.name) == ("y.gguf", 1.0, "")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("3", "adapters = 3: expected a list, each item a table of path, scale, name"),
        ('["x.gguf"]', "adapters = 'x.gguf': expected a table of path, scale, name"),
        ('[{path = "x", scal = 1}]', "expected a table of path, scale, name"),
        ("[{path = 3}]", "adapters = {'path': 3}: expected path: a text in quotes"),
        ('[{path = "x", scale = nan}]', "'scale': nan}: expected scale: a number from -100 to 100"),
        ("[{scale = 1.0}]", "adapter 1 has no path; expected a list of tables such as"),
        ('[{path = "x", name = "a b"}]', "adapter 1 is named 'a b'; a name has 1 to 120 letters"),
        ('[{path = "x", name = "a"}, {path = "y", name = "A"}]', "adapter 2 has the name of another one, 'A'"),
    ],
)
def test_a_wrong_adapter_is_told_with_its_line(tmp_path: Path, written: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f'[llm]\nmodel = "a"\nadapters = {written}\n')
    assert "line 3: [llm] adapters" in str(caught.value)
    assert told in str(caught.value)


def test_sound_models_have_no_adapters(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[asr\] adapters is not a known setting"):
        read(tmp_path, '[asr]\nmodel = "a"\nadapters = []\n')
