"""The vocabulary of a multilingual Whisper, and the rules that its timestamps obey."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from edgeserve.engines.asr.whisper.graphs import detect_language
from edgeserve.engines.asr.whisper.vocabulary import MAX_INITIAL_TIMESTAMP, Vocabulary, constrain
from edgeserve.errors import EngineFailure

SPECIALS = ["endoftext", "startoftranscript", "en", "de", "haw", "translate", "transcribe", "startoflm", "startofprev"]
SPECIALS += ["nospeech", "notimestamps"]


def build(folder: Path, size: int, specials: list[str]) -> Vocabulary:
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "Ġ": 2, "c": 3}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in specials])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"vocabulary_size": size, "suppress_ids": [3], "suppress_ids_begin": [2]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return Vocabulary.load(folder / "tokenizer.json", folder / "config.json")


@pytest.fixture
def words(tmp_path: Path) -> Vocabulary:
    return build(tmp_path, 51_866, SPECIALS)


def test_a_multilingual_prompt_names_language_and_task(words: Vocabulary) -> None:
    start, language, task = words.prompt("de", (), 10)
    assert start == words.start
    assert language == words.languages["de"]
    assert task == words.transcribe
    assert set(words.languages) == {"en", "de", "haw"}


def test_earlier_text_goes_before_it_as_far_as_there_is_room(words: Vocabulary) -> None:
    assert words.prompt("en", [0, 1, 0], 2)[:4] == [words.previous, 1, 0, words.start]


def test_an_english_model_has_no_languages(tmp_path: Path) -> None:
    words = build(tmp_path, 51_864, SPECIALS)
    assert words.languages == {}
    assert words.prompt("en", (), 1) == [words.start]


def test_a_tokenizer_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match=r"no token <\|startofprev\|>"):
        build(tmp_path, 51_866, [name for name in SPECIALS if name != "startofprev"])


def test_the_likeliest_language_is_detected(words: Vocabulary) -> None:
    class Graphs:
        def begin(self, tokens: list[int], *rest: object) -> tuple[object, dict[str, object]]:
            assert tokens == [words.start]
            logits = numpy.zeros((1, words.size), numpy.float32)
            logits[0, words.languages["haw"]] = 2.0
            logits[0, words.end] = 9.0
            return logits, {}

    assert detect_language(Graphs(), {}, words) == "haw"  # type: ignore[arg-type]


def allowed(words: Vocabulary, said: list[int], favourite: int = 0) -> set[int]:
    logits = numpy.zeros(words.first_timestamp + 1501, numpy.float32)
    logits[favourite] = 50.0
    constrain(logits, said, words)
    return {int(token) for token in numpy.flatnonzero(numpy.isfinite(logits))}


def test_the_first_token_is_an_early_timestamp(words: Vocabulary) -> None:
    first = words.first_timestamp
    assert allowed(words, []) == set(range(first, first + MAX_INITIAL_TIMESTAMP + 1))


def test_text_follows_the_first_timestamp(words: Vocabulary) -> None:
    tokens = allowed(words, [words.first_timestamp])
    assert 0 in tokens
    assert not any(token >= words.first_timestamp for token in tokens)
    assert 3 not in tokens
    assert words.transcribe not in tokens


def test_a_closing_timestamp_is_followed_by_another_or_the_end(words: Vocabulary) -> None:
    first = words.first_timestamp
    tokens = allowed(words, [first, 0, first + 10], favourite=first + 10)
    assert min(tokens) >= words.end
    assert first + 10 in tokens
    assert first + 9 not in tokens


def test_timestamps_never_go_back(words: Vocabulary) -> None:
    first = words.first_timestamp
    tokens = allowed(words, [first + 5, 0, first + 10, first + 10, 1], favourite=first + 40)
    assert not any(first <= token <= first + 10 for token in tokens)


def test_a_timestamp_comes_when_all_of_them_outweigh_every_word(words: Vocabulary) -> None:
    logits = numpy.zeros(words.first_timestamp + 1501, numpy.float32)
    logits[0] = 3.0
    constrain(logits, [words.first_timestamp, 1], words)
    assert not numpy.isfinite(logits[: words.first_timestamp]).any()
