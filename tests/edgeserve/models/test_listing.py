"""The reader of catalog.toml, and the figures in that file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from support.cases import each

from edgeserve.memory.estimate import ENCODERS
from edgeserve.models import listing
from edgeserve.models.entry import Entry
from edgeserve.models.sources.source import HubSource

GOOD = """
[[llm]]
name = "m"
about = "M, Q4_0"
licence = "MIT"
hub = "org/repo@v1"
files = [["model", "m.gguf", 2000000, "{sha}"]]
parameters = 3_000_000
shape = {{ layers = 1 }}
aliases = ["n"]
""".format(sha="a" * 64)

ENTRIES = {entry.name: entry for entry in listing.read()}


def read(folder: Path, text: str) -> list[Entry]:
    (folder / "catalog.toml").write_text(text)
    return list(listing.read(folder / "catalog.toml"))


def test_the_file_is_installed_with_the_package() -> None:
    root = Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    data = project["tool"]["setuptools"]["package-data"]["edgeserve"]
    assert listing.FILE.relative_to(root / "edgeserve").as_posix() in data


def test_an_entry_has_all_that_its_table_says(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, GOOD)
    assert entry == Entry(
        "m",
        "llm",
        "M, Q4_0",
        "MIT",
        2_000_000,
        (HubSource("org/repo", {"model": "m.gguf"}, "v1"),),
        {"model": "a" * 64},
        aliases=("n",),
        sizes={"model": 2_000_000},
        parameters=3_000_000,
        shape={"layers": 1},
    )


def test_figures_that_nobody_gives_stay_unknown(tmp_path: Path) -> None:
    text = re.sub('2000000, "a*"', '0, ""', GOOD).replace("@v1", "") + "megabytes = 3\n"
    (entry,) = read(tmp_path, text)
    assert (entry.size_bytes, entry.sizes, entry.checksums) == (3_000_000, {}, {})
    assert entry.source == "hub org/repo@main"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("[[llm]]", "[[poetry]]"), r"\[\[poetry\]\] is no job; known: llm, "),
        (GOOD.replace('licence = "MIT"\n', ""), "m lacks a key, or has one too many: licence"),
        (GOOD + "licens = 1\n", "m lacks a key, or has one too many: licens"),
        (GOOD + "options = { speed = 1 }\n", "m lacks a key, or has one too many: speed"),
        (GOOD.replace("2000000", "0"), "m needs megabytes, since the bytes of a file are unknown"),
    ],
)
def test_a_mistake_in_the_file_names_the_entry(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(tmp_path, text)


@each("entry", ENTRIES.values())
def test_the_figures_of_an_entry_are_plausible(entry: Entry) -> None:
    assert not entry.verified
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in entry.checksums.values())
    (source,) = entry.sources
    assert isinstance(source, HubSource)
    assert set(entry.sizes) | set(entry.checksums) <= set(source.members)
    assert entry.encoder in {"", *ENCODERS}
    if entry.job == "vision":
        assert entry.encoder
    if entry.parameters and not entry.convert:  # 16-bit checkpoints become 32-bit and 8-bit graphs
        weights = entry.sizes.get("model") or entry.sizes.get("encoder") or entry.size_bytes
        assert 0.4 <= weights / entry.parameters <= 1.7, "4 to 8 bits, and tables that some formats do not count"


@each("entry", [one for one in ENTRIES.values() if one.shape.get("layers")])
def test_a_shape_explains_the_parameters(entry: Entry) -> None:
    """The token table and the MLPs alone are 45% to 100% of a transformer without experts."""
    shape = entry.shape
    mlps = 3 * shape["layers"] * shape["width"] * shape["feed_forward"]
    table = shape["vocabulary"] * shape["width"] * (1 + shape.get("untied", 0))
    assert 0.45 <= (mlps + table) / entry.parameters <= 1
