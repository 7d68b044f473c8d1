"""Word tables against the dictionaries that they are made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.engines.tts.word_table import WordTable, encode

NUMBERS = st.integers(-(1 << 53), 1 << 53)
VALUES = st.none() | st.text() | st.floats(allow_nan=False) | NUMBERS | st.dictionaries(st.text(), st.text())
WORDS = st.text(st.characters(exclude_characters="\n\t", exclude_categories=()), max_size=8)


@given(st.dictionaries(WORDS, VALUES), st.dictionaries(WORDS, VALUES), st.lists(st.text(max_size=8)))
@pytest.mark.slow
def test_a_table_answers_as_its_dictionaries(first: dict[str, Any], second: dict[str, Any], others: list[str]) -> None:
    table = WordTable(encode({"a": first, "b": second}))
    for letter, words in (("a", first), ("b", second)):
        for word in (*first, *second, *others):
            assert table[letter].get(word) == words.get(word)
            assert (word in table[letter]) == (word in words)


def test_the_default_is_given_for_what_is_missing_only() -> None:
    words = WordTable(encode({"a": {"nothing": None}}))["a"]
    assert words.get("nothing", 1) is None
    assert words.get("other", 1) == 1


def test_a_word_that_begins_or_ends_another_is_not_taken_for_it() -> None:
    words = {"cat": 1, "cats": 2, "at": 3, "": 4}
    table = WordTable(encode({"a": words, "b": {}}))["a"]
    assert {word: table.get(word) for word in (*words, "t", "ca", "acat", "b")} == {
        **words, "t": None, "ca": None, "acat": None, "b": None,
    }  # fmt: skip


@pytest.mark.parametrize("word", ["two\nlines", "a\ttab"])
def test_a_word_that_would_break_the_layout_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="cannot be a word"):
        encode({"a": {word: 1}})


def test_any_damage_is_noticed() -> None:
    data = encode({"a": {"one": 1, "two": [2, 2]}})
    for at in range(len(data)):
        with pytest.raises(ValueError, match="not a word table"):
            WordTable(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ValueError, match="not a word table"):
            WordTable(data[:at])
    with pytest.raises(ValueError, match="not a word table"):
        WordTable(data + b"\0")


def test_a_table_is_mapped_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "some.words"
    path.write_bytes(encode({"a": {"é\ud800": "ˈ"}}))
    table = WordTable.map(path)
    assert table["a"].get("é\ud800") == "ˈ"
    assert table.path == path
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="empty"):
        WordTable.map(path)
