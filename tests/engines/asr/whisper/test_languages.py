"""The table of Whisper's languages against that of the reference, where it is installed, and OpenAI's counts."""

from __future__ import annotations

import pytest

from edgeserve.engines.asr.whisper.languages import checked, codes
from edgeserve.errors import InvalidRequest


@pytest.mark.parametrize(
    ("vocabulary", "count", "last"), [(51_864, 1, "en"), (51_865, 99, "su"), (51_866, 100, "yue"), (60_000, 100, "yue")]
)
def test_a_vocabulary_tells_its_languages(vocabulary: int, count: int, last: str) -> None:
    assert len(codes(vocabulary)) == count
    assert codes(vocabulary)[-1] == last


def test_the_table_is_that_of_the_reference() -> None:
    tokenizer = pytest.importorskip("faster_whisper.tokenizer", reason="faster-whisper is not installed")
    assert set(tokenizer._LANGUAGE_CODES) == set(codes(51_866))


def test_an_unknown_language_names_the_known_ones() -> None:
    known = {"en": 1, "de": 2, "haw": 3}
    assert [checked(one, known) for one in ("de", None)] == ["de", None]
    assert [checked(one, {}) for one in ("en", None)] == ["en", "en"]
    with pytest.raises(InvalidRequest, match="known: de, en, haw"):
        checked("xx", known)
    with pytest.raises(InvalidRequest, match="English only, not 'de'"):
        checked("de", {})
