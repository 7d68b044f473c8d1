"""The catalogue: names that users say, and entries that can be relied on."""

from __future__ import annotations

import importlib

import pytest

from edgeserve.errors import NotFound
from edgeserve.jobs import STARTER
from edgeserve.models import catalog
from edgeserve.models import entry as catalog_entry
from edgeserve.models.sources.source import PackageSource, file_name


def test_names_are_found_in_any_case_and_by_alias() -> None:
    assert catalog.find("SmolLM2").name == "smollm2-135m-instruct"
    assert catalog.find("WHISPER-TINY.EN") is catalog.find("whisper")


def test_an_unknown_name_has_near_ones() -> None:
    with pytest.raises(NotFound, match=r"did you mean .*qwen3-0\.6b"):
        catalog.find("qwen3-0.5b")


def test_names_and_aliases_are_unique() -> None:
    names = [name for entry in catalog.MODELS.values() for name in (entry.name, *entry.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", [*STARTER.values(), *catalog.COMPANIONS["asr"].values()])
def test_starter_models_are_pinned_and_checksummed(name: str) -> None:
    entry = catalog.MODELS[name]
    source = entry.sources[0]
    assert isinstance(source, PackageSource)
    assert len(source.sha256) == 64
    assert set(entry.checksums) == set(source.members)


@pytest.mark.parametrize("entry", catalog.MODELS.values(), ids=lambda entry: entry.name)
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
