"""Codes of languages, as clients write them."""

from __future__ import annotations

import pytest
from support.cases import each

from edgeserve.api.sound.languages import choose
from edgeserve.errors import InvalidRequest

KNOWN = ("de", "en", "yue", "zh", "zh-tw")


@each(
    ("code", "chosen"),
    [
        ("", None),
        ("auto", None),
        ("AUTO", None),
        ("en", "en"),
        ("EN", "en"),
        ("en-US", "en"),
        ("en_GB", "en"),
        ("zh-Hant-TW", "zh"),
        ("zh-tw", "zh-tw"),
        ("yue", "yue"),
    ],
)
def test_case_and_region_make_no_difference(code: str, chosen: str | None) -> None:
    assert choose(KNOWN, code) == chosen


@each("code", ["fr", "fr-FR", "e", "-", "english", "tlh"])
def test_others_are_refused_with_those_that_are_known(code: str) -> None:
    with pytest.raises(InvalidRequest, match="this model knows de, en") as caught:
        choose(KNOWN, code)
    assert caught.value.param == "language"


@pytest.mark.parametrize(("code", "chosen"), [("fr-FR", "fr"), ("auto", None), ("xx", "xx")])
def test_a_model_that_does_not_list_its_languages_gets_the_code(code: str, chosen: str | None) -> None:
    assert choose((), code) == chosen
