"""Texts of tokens against the tokenizer library, on the vocabulary of a real model and on a made-up one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support import tiny_whisper
from tokenizers import Tokenizer

from edgeserve.engines.asr.whisper.tokens import Tokens
from edgeserve.errors import EngineFailure

Pulled = Callable[[str], Mapping[str, Path]]


def agrees(file: Path, count: int, *, alone: range) -> None:
    """Tokens ``alone``, and many together: characters are cut anywhere between tokens."""
    library, ours, dice = Tokenizer.from_file(str(file)), Tokens(file), random.Random(0)
    for token in alone:
        assert ours.decode([token]) == library.decode([token])
    for _ in range(2000):
        tokens = [dice.randrange(count) for _ in range(dice.randrange(40))]
        assert ours.decode(tokens) == library.decode(tokens)


@pytest.mark.models
def test_texts_are_those_of_the_library(pulled: Pulled) -> None:
    agrees(pulled("whisper-tiny.en")["tokenizer"], 50_256, alone=range(50_256))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_whisper.build(tmp_path_factory.mktemp("whisper")) / "tokenizer.json"


@pytest.fixture(scope="module")
def tokens(file: Path) -> Tokens:
    return Tokens(file)


@pytest.mark.slow
def test_texts_of_a_made_up_vocabulary_are_those_of_the_library(file: Path) -> None:
    agrees(file, tiny_whisper.TEXT_TOKENS, alone=range(2_000))  # the others are four letters too


@pytest.mark.slow
def test_text_is_encoded_by_the_library(file: Path, tokens: Tokens) -> None:
    assert tokens.encode(" näh 語") == Tokenizer.from_file(str(file)).encode(" näh 語").ids
    assert tokens.decode(tokens.encode(" näh 語")) == " näh 語"
    assert tokens.special["transcribe"] == tiny_whisper.special("transcribe")


def test_bytes_that_are_no_character_are_marked(tokens: Tokens) -> None:
    euro = tokens.encode("€")
    assert len(euro) == 3
    assert tokens.decode(euro[:2]) == "\ufffd"
    assert tokens.decode(euro) == "€"


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", json.dumps({"decoder": {"type": "Metaspace"}})], ids=["cut", "list", "empty", "other"]
)
def test_another_tokenizer_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(EngineFailure, match=r"tokenizer\.json"):
        Tokens(file)
