"""Tables made from hibari's dictionaries: once, by one process, and again when they are damaged."""

from __future__ import annotations

import gzip
import json
import logging
import threading
from pathlib import Path

import pytest

from edgeserve.engines.tts import tables


def asset(folder: Path, name: str, content: object) -> None:
    with gzip.open(folder / f"{name}.json.gz", "wt", encoding="utf-8") as file:
        json.dump(content, file)


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    asset(folder, "lexicon_us_gold", {"read": {"DEFAULT": "ɹˈid", "VBD": "ɹˈɛd"}})
    asset(folder, "lexicon_us_silver", {"reads": "ɹˈidz"})
    asset(folder, "tagger", {"tags": ["NN", "VB"], "tagdict": {"the": "DT"}, "vocab": ["the"], "weights": {"b": {}}})
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "prepared"


def test_made_on_first_use_and_mapped_from_then_on(assets: Path, folder: Path) -> None:
    table = tables.table(assets, "lexicon_us", folder)
    assert table.path == folder / "lexicon_us.words"
    assert table["g"].get("read") == {"DEFAULT": "ɹˈid", "VBD": "ɹˈɛd"}
    assert table["s"].get("reads") == "ɹˈidz"
    made = table.path.stat()
    assert tables.table(assets, "lexicon_us", folder)["s"].get("reads") == "ɹˈidz"
    assert table.path.stat().st_ino == made.st_ino
    assert sorted(path.name for path in folder.iterdir()) == [".lexicon_us.lock", "lexicon_us.words"]


def test_the_tagger_has_four_dictionaries(assets: Path, folder: Path) -> None:
    table = tables.table(assets, "tagger", folder)
    assert table["a"].get("") == ["NN", "VB"]
    assert (table["t"].get("the"), table["w"].get("b"), "the" in table["f"], "a" in table["f"]) == (
        "DT",
        {},
        True,
        False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0, 10, -1])
def test_a_damaged_table_is_made_anew(assets: Path, folder: Path, keep: int, caplog: pytest.LogCaptureFixture) -> None:
    whole = tables.table(assets, "lexicon_us", folder).path
    assert whole is not None
    data = whole.read_bytes()
    whole.write_bytes(data[:keep])
    with caplog.at_level(logging.WARNING, "edgeserve.tts"):
        assert tables.table(assets, "lexicon_us", folder)["s"].get("reads") == "ɹˈidz"
    assert "lexicon_us.words" in caplog.text
    assert "made anew" in caplog.text
    assert whole.read_bytes() == data


def test_a_folder_that_cannot_be_written(assets: Path, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.write_text("not a folder", encoding="utf-8")
    with caplog.at_level(logging.WARNING, "edgeserve.tts"):
        table = tables.table(assets, "lexicon_us", folder)
    assert table.path is None
    assert table["s"].get("reads") == "ɹˈidz"
    assert "held in memory" in caplog.text


def test_a_process_that_fails_leaves_nothing_behind(
    assets: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "lexicon_us.partial").mkdir(parents=True)  # where it would write
    with caplog.at_level(logging.WARNING, "edgeserve.tts"):
        table = tables.table(assets, "lexicon_us", folder)
    assert table.path is None
    assert "IsADirectoryError" in caplog.text
    assert not (folder / "lexicon_us.words").exists()


def test_damaged_assets_are_not_made_into_a_table(assets: Path, folder: Path) -> None:
    (assets / "lexicon_us_silver.json.gz").write_bytes(b"no gzip")
    with pytest.raises(OSError, match="gzip"):
        tables.table(assets, "lexicon_us", folder)
    assert not (folder / "lexicon_us.words").exists()


def test_many_at_once_make_one_table(assets: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock belongs to the open file, so threads wait for each other as processes do."""
    made: list[list[str]] = []
    run = tables.subprocess.run
    monkeypatch.setattr(tables.subprocess, "run", lambda command, **more: (made.append(command), run(command, **more)))
    start = threading.Barrier(4)
    found: list[object] = []

    def ask() -> None:
        start.wait()
        found.append(tables.table(assets, "lexicon_us", folder)["s"].get("reads"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["ɹˈidz"] * 4
    assert len(made) == 1
