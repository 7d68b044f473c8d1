"""The measurement of forms: the lines of its process, its failures, and its end when nobody wants it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from edgeserve.errors import EngineFailure, NotSupported
from edgeserve.fit import tuned, tuning
from edgeserve.jobs import INFO
from edgeserve.models.stored import StoredModel

LINES = (
    {"settings": {}, "climb": 0.1, "prompt": 100.0, "tokens": 10.0, "best": True, "others": 0.0},
    {"settings": {"repack": "on"}, "climb": 0.4, "prompt": 200.0, "tokens": 13.0, "best": True, "others": 0.2},
    {"settings": {"repack": "on", "flash_attention": "off"}, "climb": 0.4, "prompt": 150.0, "tokens": 12.0}
    | {"best": False, "others": 0.1},
)


@pytest.fixture
def model(tmp_path: Path) -> StoredModel:
    path = tmp_path / "models" / "m.gguf"
    path.parent.mkdir()
    path.write_bytes(bytes(7))
    return StoredModel("m", "llm", INFO["llm"].engine, {"model": path}, 7)


def printing(*lines: Any, error: Exception | None = None) -> tuple[tuning.Run, list[list[str]]]:
    commands: list[list[str]] = []

    @contextlib.contextmanager
    def run(command: Sequence[str]) -> Iterator[Iterator[str]]:
        commands.append(list(command))
        yield iter([one if isinstance(one, str) else json.dumps(one) for one in lines])
        if error is not None:
            raise error

    return run, commands


def test_the_best_form_is_recorded_with_all_others(model: StoredModel) -> None:
    run, commands = printing(*LINES)
    shown: list[tuned.Form] = []
    found = tuning.measure(model, run, shown.append)
    assert found is not None
    assert found.best == {"repack": "on"}
    assert found.forms == tuple(shown)
    assert (len(shown), found.size, found.others) == (3, 7, 0.2)
    asked = commands[0][commands[0].index("edgeserve.fit.form_trial") + 1]
    assert json.loads(asked)["files"] == {"model": str(model.files["model"])}


def test_it_ends_after_the_form_under_way_when_nobody_wants_it(model: StoredModel) -> None:
    run, _ = printing(*LINES)
    shown: list[tuned.Form] = []
    assert tuning.measure(model, run, shown.append, wanted=lambda: len(shown) < 2) is None
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        ((), None, "printed none"),
        (("no json",), None, "could not be measured"),
        (({**LINES[0], "tokens": 0},), None, "no figures"),
        ((LINES[0],), subprocess.CalledProcessError(-6, ["x"], stderr="a\nout of memory"), "out of memory"),
        ((), FileNotFoundError("no python"), "no python"),
    ],
)
def test_a_measurement_that_fails_is_one_error(
    model: StoredModel, lines: tuple[Any, ...], error: Exception | None, words: str
) -> None:
    run, _ = printing(*lines, error=error)
    with pytest.raises(EngineFailure, match=words):
        tuning.measure(model, run)


def test_a_voice_has_no_forms(tmp_path: Path) -> None:
    voice = StoredModel("v", "tts", INFO["tts"].engine, {"model": tmp_path / "v.onnx"}, 7)
    with pytest.raises(NotSupported, match="chat and vision"):
        tuning.measure(voice)
    assert tuning.summary(tmp_path, voice) == ""


def test_the_summary_names_settings_and_speeds(model: StoredModel) -> None:
    root = model.files["model"].parent
    assert tuning.summary(root, model) == "not yet; an idle server measures it, or edgeserve tune m"
    run, _ = printing(*LINES)
    found = tuning.measure(model, run)
    assert found is not None
    tuned.keep(tuned.path_of(root, "m"), found)
    assert tuning.summary(root, model) == 'repack = "on": 200 tokens/s read, 13 written'


def test_a_process_gives_its_lines_and_its_error() -> None:
    with tuning.run([sys.executable, "-c", "print('one'); print('two')"]) as lines:
        assert [one.strip() for one in lines] == ["one", "two"]
    code = "import sys; print('one', flush=True); sys.exit('broken')"
    with (
        pytest.raises(subprocess.CalledProcessError) as caught,
        tuning.run([sys.executable, "-c", code]) as lines,
    ):
        assert [one.strip() for one in lines] == ["one"]
    assert "broken" in caught.value.stderr


def test_a_process_has_a_line_to_this_one() -> None:
    """Its standard input, which ends with this process."""
    code = "import os, stat; print(stat.S_ISFIFO(os.fstat(0).st_mode))"
    with tuning.run([sys.executable, "-c", code]) as lines:
        assert next(lines).strip() == "True"


def test_a_process_is_ended_with_its_block() -> None:
    code = "import time\nprint('one', flush=True)\ntime.sleep(600)"
    with tuning.run([sys.executable, "-c", code]) as lines:
        assert next(lines).strip() == "one"
    with contextlib.suppress(KeyboardInterrupt), tuning.run([sys.executable, "-c", code]) as lines:
        raise KeyboardInterrupt
