"""Texts into tokens by tokenizer.json, no further than a model reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.tiny_bert_onnx import TOKENS, tokenizer_json

from edgeserve.errors import EngineFailure
from engines.encoder.tokens import MOST_CHARS, Tokens


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokenizer.json"
    path.write_text(tokenizer_json())
    return path


@pytest.fixture(scope="module")
def tokens(path: Path) -> Tokens:
    return Tokens(path)


def named(numbers: list[int]) -> list[str]:
    return [TOKENS[number] for number in numbers]


def test_the_length_that_the_file_cuts_and_fills_to_does_not_count(tokens: Tokens) -> None:
    text = tokens.text("cat " * 30, 96)
    assert named(text.tokens) == ["[CLS]", *["cat"] * 30, "[SEP]"]
    assert not text.cut
    assert len(tokens.text("cat", 96).tokens) == 3


def test_a_long_text_is_cut_with_its_last_token(tokens: Tokens) -> None:
    text = tokens.text("cat dog " * 5000, 8)
    assert named(text.tokens) == ["[CLS]", *["cat", "dog"] * 3, "[SEP]"]
    assert text.cut


def test_texts_of_a_client_never_become_control_tokens(tokens: Tokens) -> None:
    assert not {2, 3} & set(tokens.text("cat [SEP] dog [CLS]", 96).tokens[1:-1])
    pair = tokens.pairs("cat [SEP]", 96).pair("[SEP] dog")
    assert named(pair.tokens).count("[SEP]") == 2


def test_a_pair_has_segments(tokens: Tokens) -> None:
    pair = tokens.pairs("cat", 96).pair("dog rain")
    assert named(pair.tokens) == ["[CLS]", "cat", "[SEP]", "dog", "rain", "[SEP]"]
    assert pair.types == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("times", [1, 7, 8, 9, 500, 100_000])
def test_the_beginning_costs_no_more_than_it_holds(tokens: Tokens, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The tokens are those of the whole text."""
    read: list[int] = []
    encode = Tokens._encode

    def counted(self: Tokens, text: str) -> Any:
        read.append(len(text))
        return encode(self, text)

    monkeypatch.setattr(Tokens, "_encode", counted)
    found, more = tokens._beginning("cat " * times, 8)
    assert named(list(found.ids)) == ["cat"] * min(times, 8)
    assert more == (times > 8)
    assert sum(read) <= 1000


def test_white_space_that_takes_no_token_ends_a_text_at_some_point(tokens: Tokens) -> None:
    found, more = tokens._beginning(" " * 100 + "cat", 4)
    assert (named(list(found.ids)), more) == (["cat"], False)
    found, more = tokens._beginning(" " * (8 * MOST_CHARS * 4) + "cat", 4)
    assert (list(found.ids), more) == ([], True)


@pytest.mark.parametrize("data", ["", "{}", "[1, 2", '{"model": {"type": "Nothing"}}'])
def test_a_file_that_is_no_tokenizer(tmp_path: Path, data: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(data)
    with pytest.raises(EngineFailure, match=r"tokenizer\.json: no tokenizer that can be read"):
        Tokens(path)
