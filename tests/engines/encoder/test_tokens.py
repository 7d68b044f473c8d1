"""Texts into tokens by tokenizer.json, no further than a model reads."""

from __future__ import annotations

import random
import string
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.tiny_bert_onnx import TOKENS, tokenizer_json

from edgeserve.engines.encoder.tokens import LEAST_CHARS, TOKEN, UNIGRAM_PIECE, Tokens, vocabulary_bytes
from edgeserve.errors import EngineFailure


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokenizer.json"
    path.write_text(tokenizer_json())
    return path


@pytest.fixture(scope="module")
def tokens(path: Path) -> Tokens:
    return Tokens(path)


def named(numbers: Sequence[int]) -> list[str]:
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
    assert list(pair.types) == [0, 0, 0, 1, 1, 1]


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
    found, more = tokens._beginning(" " * LEAST_CHARS + "cat", 4)
    assert (list(found.ids), more) == ([], True)


@pytest.mark.parametrize("most", [1, 510, 2046, 8190])
@pytest.mark.parametrize("endless", [" ", "a", "😀"])
def test_no_step_reads_far_for_a_text_of_few_tokens(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch, most: int, endless: str
) -> None:
    """One word of 16 MB took 5.7 s, in which the engine answered nobody else."""
    read: list[int] = []
    monkeypatch.setattr(Tokens, "_encode", lambda self, text: read.append(len(text)) or self._tokenizer.encode("cat"))
    assert tokens._beginning(endless * (4 << 20), most)[1]
    assert max(read) == max(262_144, 64 * most)
    assert sum(read) <= 2 * max(read)


def test_others_run_while_a_text_is_read(tokens: Tokens) -> None:
    """The event loop is one of them, where the engine lives on threads of the server."""
    turns, ended = [0], threading.Event()

    def other() -> None:
        while not ended.wait(0.0005):
            turns[0] += 1

    thread = threading.Thread(target=other)
    thread.start()
    try:
        before = turns[0]
        tokens._encode("😀" * (4 * LEAST_CHARS))
        assert turns[0] - before > 5
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("data", ["", "{}", "[1, 2", '{"model": {"type": "Nothing"}}'])
def test_a_file_that_is_no_tokenizer(tmp_path: Path, data: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(data)
    with pytest.raises(EngineFailure, match=r"tokenizer\.json: no tokenizer that can be read"):
        Tokens(path)


def unigram(count: int) -> str:
    from tokenizers import Tokenizer, models

    dice = random.Random(1)
    words = dict[str, None]()
    while len(words) < count:
        words["▁" + "".join(dice.choices(string.ascii_lowercase, k=dice.randint(2, 9)))] = None
    pieces = [("<unk>", 0.0), *((word, -dice.random()) for word in words)]
    return str(Tokenizer(models.Unigram(pieces, unk_id=0)).to_str(pretty=count % 2 == 1))


@pytest.mark.parametrize("count", [1000, 1001])
def test_the_memory_of_a_vocabulary_is_counted_by_its_entries(tmp_path: Path, path: Path, count: int) -> None:
    (tmp_path / "unigram.json").write_text(unigram(count))
    assert vocabulary_bytes(tmp_path / "unigram.json") == pytest.approx(UNIGRAM_PIECE * count, rel=0.02)
    assert vocabulary_bytes(path) == pytest.approx(TOKEN * len(TOKENS), rel=1.5)
    with pytest.raises(EngineFailure, match=r"none\.json"):
        vocabulary_bytes(tmp_path / "none.json")


@pytest.mark.parametrize("read", [Tokens, vocabulary_bytes])
def test_a_file_that_is_too_large_for_a_tokenizer_is_not_read(
    tmp_path: Path, read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json())
    read(path)
    monkeypatch.setattr("edgeserve.engines.encoder.tokens.LARGEST", path.stat().st_size - 1)
    with pytest.raises(EngineFailure, match=r"tokenizer\.json: \d+ MB, expected at most"):
        read(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_a_large_vocabulary_takes_as_much_as_counted(tmp_path: Path, kind: str) -> None:
    """In a process of its own, whose heap nobody has used."""
    from tokenizers import Tokenizer, models

    words = {f"{number:x}{'ab' * (number % 3)}": number for number in range(40_000)}
    large = tmp_path / "tokenizer.json"
    text = Tokenizer(models.WordPiece({"[UNK]": 40_000, **words}, unk_token="[UNK]")).to_str()
    large.write_text(unigram(40_000) if kind == "unigram" else text)
    code = (
        "import sys\nfrom pathlib import Path\nimport tokenizers\n"
        "from edgeserve.system import heap, pages\nfrom edgeserve.engines.encoder.tokens import Tokens\n"
        "before = pages.private_bytes()\nkept = Tokens(Path(sys.argv[1]))\nheap.trim()\n"
        "print(pages.private_bytes() - before)"
    )
    shown = subprocess.run([sys.executable, "-c", code, str(large)], capture_output=True, text=True, check=True)
    assert vocabulary_bytes(large) == pytest.approx(int(shown.stdout), rel=0.5)
