"""Learned peaks: kept over restarts, by model and settings; a damaged file is put aside."""

from __future__ import annotations

import errno
import json
import logging
from pathlib import Path

import pytest

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.memory import peaks as module
from edgeserve.memory.peaks import Peaks, key

SPEC = ModelSpec("llm", "smollm2", "edgeserve.engines.llama.chat:LlamaChat", options={"context": 2048})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "memory.json"


def test_a_peak_outlasts_a_restart(path: Path) -> None:
    one = Peaks(path)
    assert one.find(SPEC) is None
    one.learn(SPEC, Footprint(mapped=100, private=50))
    one.learn(SPEC, Footprint(mapped=90, private=70, per_request=5))
    one.learn(SPEC, Footprint(mapped=10, private=10))
    assert Peaks(path).find(SPEC) == Footprint(mapped=100, private=70, per_request=5)
    assert [file.name for file in path.parent.iterdir()] == ["memory.json"], "no half-written file is left"


def test_a_doubted_peak_is_forgotten_unless_it_is_firm(path: Path) -> None:
    one = Peaks(path)
    one.doubt(SPEC)
    one.learn(SPEC, Footprint(private=70))
    one.doubt(SPEC)
    assert Peaks(path).find(SPEC) is None
    one.learn(SPEC, Footprint(private=70))
    assert one.firm(SPEC) == 0
    one.learn(SPEC, Footprint(private=70), firm=True)
    one.learn(SPEC, Footprint(private=90))
    assert (one.find(SPEC), one.firm(SPEC)) == (Footprint(private=90), 70)
    one.doubt(SPEC)
    again = Peaks(path)
    assert (again.find(SPEC), again.firm(SPEC)) == (Footprint(private=70), 70)


def test_a_file_of_before_has_no_firm_peaks(path: Path) -> None:
    path.parent.mkdir()
    row = {"mapped": 1, "private": 2, "per_request": 3, "device": 0, "learned": 4}
    path.write_text(json.dumps({"version": 1, "peaks": {key(SPEC): row}}))
    one = Peaks(path)
    assert (one.find(SPEC), one.firm(SPEC)) == (Footprint(1, 2, 3), 0)


def test_the_highest_peak_of_a_model_whatever_its_settings(path: Path) -> None:
    one = Peaks(path)
    for context, private in ((1, 30), (2, 90), (3, 60)):
        one.learn(ModelSpec("llm", "smollm2", "", options={"context": context}), Footprint(private=private))
    one.learn(ModelSpec("llm", "smollm2-360m", ""), Footprint(private=500))
    assert Peaks(path).highest("llm", "smollm2") == Footprint(private=90)
    assert Peaks(path).highest("vision", "smollm2") is None


def test_peaks_without_a_path_are_forgotten(tmp_path: Path) -> None:
    one = Peaks()
    one.learn(SPEC, Footprint(private=1))

    assert list(tmp_path.iterdir()) == []


def test_a_peak_that_hardly_rose_is_not_written_again(path: Path) -> None:
    one = Peaks(path)
    one.learn(SPEC, Footprint(private=10_000))
    written = path.stat().st_mtime_ns
    one.learn(SPEC, Footprint(private=10_100))
    assert path.stat().st_mtime_ns == written
    one.learn(SPEC, Footprint(private=10_101))
    assert one.find(SPEC) == Footprint(private=10_101)


def test_settings_files_and_names_change_the_key(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"12")
    specs = [
        SPEC,
        ModelSpec("llm", "other", SPEC.engine, options=SPEC.options),
        ModelSpec("llm", "smollm2", SPEC.engine, options={"context": 4096}),
        ModelSpec("llm", "smollm2", SPEC.engine, options=SPEC.options, threads=2),
        ModelSpec("llm", "smollm2", SPEC.engine, options=SPEC.options, device="cuda"),
        ModelSpec("llm", "smollm2", SPEC.engine, {"model": file}, options=SPEC.options),
    ]
    keys = [key(one) for one in specs]
    file.write_bytes(b"123")
    keys.append(key(specs[-1]))
    assert len(set(keys)) == len(keys)
    assert key(ModelSpec("llm", "a", "e", options={"x": 1, "y": 2})) == key(
        ModelSpec("llm", "a", "e", options={"y": 2, "x": 1})
    )


def test_the_oldest_rows_go_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 3)
    specs = [ModelSpec("llm", f"m{number}", "e:E") for number in range(4)]
    one = Peaks(path)
    for spec in specs[:3]:
        one.learn(spec, Footprint(private=100))
    one.learn(specs[0], Footprint(private=200))
    one.learn(specs[3], Footprint(private=100))
    assert [Peaks(path).find(spec) is None for spec in specs] == [False, True, False, False]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"peaks": []}', '{"peaks": {"a": 1}}', '{"peaks": {"a": {"mapped": "x"}}}', "\x00\xff"]
)
def test_a_damaged_file_is_put_aside_with_a_warning(path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="latin-1")
    one = Peaks(path)
    with caplog.at_level(logging.WARNING):
        assert one.find(SPEC) is None
    assert "memory.json.damaged" in caplog.text
    assert path.with_name("memory.json.damaged").read_text(encoding="latin-1") == text
    one.learn(SPEC, Footprint(private=1))
    assert json.loads(path.read_text())["version"] == 1


def test_a_file_that_cannot_be_written_whole_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process left another file of its own on a full disk."""

    def full(path: Path, text: str, encoding: str) -> int:
        path.write_bytes(text[:10].encode(encoding))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    Peaks(tmp_path / "memory.json").learn(SPEC, Footprint(private=1))
    assert not list(tmp_path.iterdir())


def test_a_full_disk_logs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    one = Peaks(tmp_path / "state" / "memory.json")
    with caplog.at_level(logging.WARNING):
        one.learn(SPEC, Footprint(private=1))
        one.learn(SPEC, Footprint(private=2))
    assert caplog.text.count("learned peaks could not be written") == 1
    assert one.find(SPEC) == Footprint(private=2)
    (tmp_path / "state").unlink()
    one.learn(SPEC, Footprint(private=3))
    assert Peaks(tmp_path / "state" / "memory.json").find(SPEC) == Footprint(private=3)
