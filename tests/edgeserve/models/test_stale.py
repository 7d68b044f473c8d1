"""Stored models that are behind the catalogue, with the reason."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from edgeserve.models import catalog
from edgeserve.models.convert.conversions import CONVERSIONS
from edgeserve.models.manifest import Manifest, StoredFile
from edgeserve.models.stale import reason

VOICE = catalog.find("hibari")
HEARING = catalog.find("whisper-tiny.en")


def stored(entry: Any, **changes: Any) -> Manifest:
    """A manifest of the model as the catalogue has it."""
    files = {role: StoredFile(f"{role}.bin", 1, checksum) for role, checksum in entry.checksums.items()}
    form = CONVERSIONS[entry.convert].format if entry.convert else None
    fresh = Manifest(entry.job, entry.engine, entry.licence, entry.source, {}, files, entry.convert or None, form)
    return dataclasses.replace(fresh, **changes)


@pytest.mark.parametrize("entry", [VOICE, HEARING], ids=lambda one: one.name)
def test_a_model_as_the_catalogue_has_it_is_not_behind(entry: Any) -> None:
    assert reason(entry, stored(entry)) == ""


def test_another_source_of_the_same_model_will_do() -> None:
    assert reason(HEARING, stored(HEARING, source=str(HEARING.sources[-1]))) == ""


def test_a_source_that_the_catalogue_left() -> None:
    why = reason(VOICE, stored(VOICE, source="package hibari-tts 0.1.0"))
    assert why == f"it came from package hibari-tts 0.1.0, and the catalogue now has {VOICE.source}"


def test_a_file_that_changed() -> None:
    files = {"model": StoredFile("hibari.onnx", 1, "0" * 64)}
    assert reason(VOICE, stored(VOICE, files=files)) == "the catalogue has another file: model"


def test_an_older_conversion() -> None:
    assert reason(HEARING, stored(HEARING, format=0)) == "converted by an older edgeserve"


def test_converted_files_have_no_checksums_in_the_catalogue() -> None:
    files = {role: StoredFile(role, 1, "0" * 64) for role in HEARING.checksums}
    assert reason(HEARING, stored(HEARING, files=files)) == ""
