"""Texts into tokens by a model's tokenizer.json, no further than the model reads."""

from __future__ import annotations

import array
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.whole_texts import Room, half_character, long_query
from edgeserve.errors import EngineFailure, InvalidRequest

CHARS = 16
"""Characters for each wanted token, in the first piece of a long text."""
SLACK = 8
"""Tokens beyond the wanted ones that a piece must have: the end of a piece may be half of a word."""
MOST_CHARS, LEAST_CHARS = 64, 1 << 18
"""Characters for each wanted token at most, or of a text that wants few. A longer stretch without tokens, such as white
space or one endless word, ends a text. Nobody else has a turn while a piece is read: 262,144 emoji take 0.2 s."""
UNIGRAM = re.compile(rb'"type"\s*:\s*"Unigram"')
UNIGRAM_PIECE, TOKEN = 1170, 260
"""Private bytes of an entry of a vocabulary, measured: of a Unigram of 200,000 pieces, and of a WordPiece's."""
LARGEST = 256 << 20
"""Bytes of a tokenizer's file. The largest vocabularies of 2026 take 35 MB."""


def vocabulary_bytes(path: Path) -> int:
    """Private memory of a tokenizer, about, by the entries in its file.

    Raises EngineFailure for a missing file, and for one that is too large to be a tokenizer.
    """
    _check_size(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EngineFailure(f"{path}: {error.strerror}; pull the model again with `edgeserve pull`") from error
    if UNIGRAM.search(data):
        return UNIGRAM_PIECE * data.count(b"],")
    return TOKEN * data.count(b'":')


def _check_size(path: Path) -> None:
    """Raises EngineFailure. A missing file is left to its reader."""
    if path.is_file() and (size := path.stat().st_size) > LARGEST:
        raise EngineFailure(f"{path}: {size >> 20} MB, expected at most {LARGEST >> 20}; pull the model again")


@dataclass(frozen=True, slots=True)
class Text:
    """Tokens of one text, or of a query with a document, and the segment of each. ``cut``: the text continues."""

    tokens: Sequence[int]
    types: Sequence[int]
    cut: bool = False

    @classmethod
    def of(cls, encoding: Any, *, cut: bool) -> Text:
        """The tokens of an encoding, in 4 bytes each: there may be 300,000."""
        return cls(array.array("i", encoding.ids), array.array("i", encoding.type_ids), cut)


class Tokens:
    """A tokenizer. Texts of a client never become control tokens."""

    def __init__(self, path: Path) -> None:
        """Raises EngineFailure for a file that is no tokenizer."""
        _check_size(path)
        from tokenizers import Tokenizer

        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # it has one text at a time, and needs no threads
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises no class of its own
            raise EngineFailure(f"{path}: no tokenizer that can be read: {error}; pull the model again") from error
        # The file may say how its trainer cut and filled texts: at 128 tokens, for example.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self.size = int(self._tokenizer.get_vocab_size())
        self._added, self._added_to_pair = (
            int(self._tokenizer.num_special_tokens_to_add(pair)) for pair in (False, True)
        )

    def text(self, text: str, most: int) -> Text:
        """The tokens of a text with the model's own first and last tokens: ``most`` in all, or ``cut``."""
        found, more = self._beginning(text, most - self._added)
        return Text.of(self._tokenizer.post_process(found), cut=more)

    def given(self, tokens: tuple[int, ...]) -> Text:
        """Tokens that the client made. Raises InvalidRequest for one that is not in the vocabulary."""
        for token in tokens:
            if token >= self.size:
                raise InvalidRequest(f"token {token} is not in the vocabulary of {self.size} tokens", param="input")
        return Text(array.array("i", tokens), array.array("i", bytes(4 * len(tokens))))

    def pairs(self, query: str, most: int, most_document: int | None = None) -> Pairs:
        """The pairs of a query, of ``most`` tokens each. Raises ContextOverflow for a query without room."""
        found, more = self._beginning(query, most)
        if more:
            raise long_query(f"more than {most}", most)
        return Pairs(self, found, Room(most, len(found.ids) + self._added_to_pair, most_document))

    def pair(self, query: Any, document: str, room: Room) -> Text:
        """The tokens of a query with a document. Raises ContextOverflow."""
        found, more = self._beginning(document, room.limit)
        if more:
            room.check_cut()
        return Text.of(self._tokenizer.post_process(query, found), cut=more)

    def _beginning(self, text: str, most: int) -> tuple[Any, bool]:
        """The first ``most`` tokens of a text, and whether it continues. The cost grows with ``most``."""
        size = max(1, most) * CHARS
        longest = max(LEAST_CHARS, most * MOST_CHARS)
        while True:
            found = self._encode(text[:size])
            if len(found.ids) > most + SLACK or size >= min(longest, len(text)):
                more = len(found.ids) > most or size < len(text)
                found.truncate(max(0, most))
                return found, more
            size = min(4 * size, longest)

    def _encode(self, text: str) -> Any:
        try:
            text.encode()  # the library has no words for what UTF-8 cannot hold
        except UnicodeEncodeError as error:
            raise half_character(error) from None
        # ``encode`` keeps the interpreter to itself: all of the server waited for a text on its own threads.
        return self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of one query."""

    tokens: Tokens
    query: Any
    room: Room

    def pair(self, document: str) -> Text:
        return self.tokens.pair(self.query, document, self.room)
