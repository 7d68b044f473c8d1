"""The catalogue: names that users say, and entries that can be relied on."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from support.cases import each

from edgeserve.errors import NotFound
from edgeserve.jobs import STARTER
from edgeserve.models import catalog
from edgeserve.models import entry as catalog_entry
from edgeserve.models.sources.source import file_name


def test_names_are_found_in_any_case_and_by_alias() -> None:
    assert catalog.find("SmolLM2").name == "smollm2-135m-instruct"
    assert catalog.find("WHISPER-TINY.EN") is catalog.find("whisper")


def test_an_unknown_name_has_near_ones() -> None:
    with pytest.raises(NotFound, match=r"did you mean .*qwen3-0\.6b"):
        catalog.find("qwen3-0.5b")


def test_names_and_aliases_are_unique() -> None:
    names = [name for entry in catalog.MODELS.values() for name in (entry.name, *entry.aliases)]
    assert len(set(names)) == len(names)


def test_a_server_of_starter_models_never_reads_the_long_list() -> None:
    code = (
        "import sys\n"
        "from edgeserve.models import catalog, manifest, store, wanted\n"
        f"print([catalog.find(name).name for name in {[*STARTER.values(), 'silero-vad']}])\n"
        "print(catalog._everything.cache_info().currsize, catalog.knows('qwen3-0.6b'))\n"
        "print(catalog._everything.cache_info().currsize, len(catalog.MODELS) > 50)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[1:] == ["0 True", "1 True"]


def test_a_model_for_mlx_is_unverified_though_its_checkpoint_is_not() -> None:
    assert catalog.find("whisper-tiny.en").verified
    assert not catalog.find("whisper-tiny.en-mlx").verified


@each("name", catalog.MODELS)
def test_options_are_those_that_a_manifest_may_have(name: str) -> None:
    assert set(catalog.MODELS[name].options) <= catalog_entry.OPTIONS


@each("entry", catalog.MODELS.values())
def test_every_entry_is_complete(entry: catalog_entry.Entry) -> None:
    assert entry.description
    assert entry.licence
    assert entry.size_bytes > 1_000_000
    accompanies = any(entry.name in companions.values() for companions in catalog.COMPANIONS.values())
    assert accompanies == (not entry.engine)
    if entry.engine:
        module, _, name = entry.engine.partition(":")
        assert hasattr(importlib.import_module(module), name)
    for source in entry.sources:
        assert all(file_name(member) for member in source.members.values())  # type: ignore[union-attr]
    if entry.job == "vision":
        assert set(entry.sources[0].members) == {"model", "mmproj"}  # type: ignore[union-attr]
