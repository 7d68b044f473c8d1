"""Packages beyond the server's own: the models that need them, and the commands that install them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from support.cases import each

from edgeserve.engines.tts import onnx
from edgeserve.models import catalog, needs
from edgeserve.models.convert.conversions import CONVERSIONS

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
ALL = [need for table in (needs.CONVERSIONS, needs.VOICES) for some in table.values() for need in some]


def nothing(module: str) -> bool:
    return False


@each("need", ALL)
def test_edgeserve_or_the_suggested_extra_brings_the_package(need: needs.Need) -> None:
    of_extra = [one.startswith(need.package) for one in PROJECT["optional-dependencies"].get(need.extra, ())]
    of_all = [one.startswith(need.package) for one in PROJECT["dependencies"]]
    assert (any(of_extra), any(of_all)) == (bool(need.extra), not need.extra)


def test_every_family_of_voices_and_every_conversion_is_known() -> None:
    assert set(needs.VOICES) == set(onnx.FAMILIES)
    assert set(needs.CONVERSIONS) <= set(CONVERSIONS)
    families = {str(one.options["family"]) for one in catalog.MODELS.values() if one.job == "tts"}
    assert families <= set(needs.VOICES)


def test_missing_packages_and_their_command() -> None:
    missing = (*needs.to_convert("whisper", nothing), *needs.to_run({"family": "piper"}, nothing))
    assert needs.packages(missing) == "onnx, hibari-tts, piper-tts"
    assert needs.command(missing) == "pip install onnx hibari-tts 'edgeserve[piper]'"
    assert needs.command(missing[2:]) == "pip install 'edgeserve[piper]'"
    assert needs.to_convert("whisper_mlx", nothing) == needs.to_convert("", nothing) == needs.to_run({}, nothing) == ()
    assert needs.to_run({"family": ["odd"]}, nothing) == ()


def test_a_package_that_is_there_is_not_missing() -> None:
    assert needs.installed("json")
    assert not needs.installed("no_such_module_at_all")
