"""A vocabulary's tokens of a text: in pieces, and no further than a context can hold.

llama.cpp takes a text of any length at once, some 100 bytes of memory for each of its bytes, and splits it with regular
expressions that recurse: a word of 100,000 letters overflows the stack of the process for some vocabularies
(docs/decisions/0007-what-a-request-reaches-in-llama-cpp.md). A piece is short enough for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from edgeserve.errors import EngineFailure, InvalidRequest
from engines.llama.runtime import llama

PIECE = 4096
"""Characters in a piece at most."""
BORDER = re.compile(r"(?<=\w)(?= \w)|(?<=[\n。！？])(?=\w)")
"""Where every splitter begins a new word, so that the tokens are those of the whole text."""
RUNS = (re.compile(r"[^\s.,!?…。，、]+"), re.compile(r"[\W_]+"))
"""What a splitter may take at once: words, and white space with punctuation."""
LONGEST_RUN = 8191
"""Characters of one that any splitter may be given."""
SLACK = 8
"""Tokens that a piece may have more than its part of the whole text has."""
LEAST_LONGEST = 16
"""Bytes of the longest token that is assumed at least: control characters and white space may take no token at all."""


class TooLong(Exception):
    """A text has more tokens than may be. ``count``: how many, or the least if not ``exact``."""

    def __init__(self, count: int, *, exact: bool = False) -> None:
        super().__init__(count)
        self.count = count
        self.exact = exact

    def __str__(self) -> str:
        return str(self.count) if self.exact else f"more than {self.count}"


class Vocabulary(Protocol):
    """What llama.cpp knows of a model's vocabulary. ``joins``: tokens of pieces are those of the whole."""

    joins: bool

    def split(self, data: bytes, room: int, *, add_special: bool) -> list[int] | int:
        """Tokens of a UTF-8 text, their number instead when there are more than ``room``."""
        ...

    def borders(self) -> tuple[list[int], list[int]]:
        """What ``add_special`` writes before and after a text."""
        ...

    def longest(self) -> int:
        """Bytes of the longest token, or more."""
        ...


class Tokenizer:
    """Any thread, several at a time."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._longest = 0

    def tokenize(self, text: str, *, add_special: bool, most: int | None = None) -> list[int]:
        """``add_special``: with what the model begins and ends every text. Raises TooLong for more than ``most``
        tokens, InvalidRequest for a text that is no Unicode."""
        if most is not None:
            self.check_size(len(text), most)
        if len(text) > PIECE and self._vocabulary.joins:
            return self._joined(text, add_special, most)
        if len(text) > PIECE and most is not None and len(text) > most:
            self._check_pieces(text, most)
        return self._whole(text, add_special, most)

    def check_size(self, characters: int, most: int, *, times: int = 1) -> None:
        """Raises TooLong for a text of so many characters that it cannot but have more than ``most`` tokens. ``times``:
        as often over that, since some of the text may be left out before it is tokenised."""
        if characters > most and characters > times * most * self.longest:
            raise TooLong(most)

    def check_runs(self, text: str) -> None:
        """Of a text that a library tokenises whole. Raises InvalidRequest."""
        # Each run is matched once. A pattern of 8,192 characters tries again from each of them: 100 KB took 10 s.
        runs = (match for run in RUNS for match in run.finditer(text)) if self._vocabulary.joins else ()
        if any(match.end() - match.start() > LONGEST_RUN for match in runs):
            raise InvalidRequest(f"beside a picture, a word may have {LONGEST_RUN:,} characters at most: break it up")

    @property
    def longest(self) -> int:
        """Bytes of the longest token; read once, as it takes a tenth of a second."""
        if not self._longest:
            self._longest = max(LEAST_LONGEST, self._vocabulary.longest())
        return self._longest

    def _whole(self, text: str, add_special: bool, most: int | None) -> list[int]:
        data = _bytes(text)
        room = len(data) + SLACK if most is None else min(len(data) + SLACK, most)
        tokens = self._vocabulary.split(data, room, add_special=add_special)
        if isinstance(tokens, int):
            raise TooLong(tokens, exact=True)
        return tokens

    def _joined(self, text: str, add_special: bool, most: int | None) -> list[int]:
        before, after = self._vocabulary.borders() if add_special else ([], [])
        tokens, done = before, 0
        for piece in pieces(text):
            tokens += self._whole(piece, False, None)
            done += len(piece)
            if most is not None and len(tokens) > most:
                raise TooLong(len(tokens) + len(after) if done == len(text) else most, exact=done == len(text))
        return tokens + after

    def _check_pieces(self, text: str, most: int) -> None:
        """Raises TooLong as soon as there are too many, whatever is lost or won between pieces."""
        count = 0
        for piece in pieces(text):
            count += max(0, len(self._whole(piece, False, None)) - SLACK)
            if count > most:
                raise TooLong(most)


def pieces(text: str) -> Iterator[str]:
    """At most PIECE characters each, cut where a word begins, if one does in the second half."""
    at = 0
    while len(text) - at > PIECE:
        end = at + PIECE
        for border in BORDER.finditer(text, at + PIECE // 2, end):
            end = border.start()
        yield text[at:end]
        at = end
    yield text[at:]


class NativeVocabulary:
    """By llama.cpp's pointer, which must be held meanwhile."""

    def __init__(self, handle: Any, name: str) -> None:
        runtime = llama()
        self._handle = handle
        self._name = name
        # The other kinds put a space before each text, or look back further than a word.
        self.joins = runtime.llama_vocab_type(handle) == runtime.LLAMA_VOCAB_TYPE_BPE

    def split(self, data: bytes, room: int, *, add_special: bool) -> list[int] | int:
        array = (llama().llama_token * room)()
        count = int(llama().llama_tokenize(self._handle, data, len(data), array, room, add_special, True))
        if count == -(2**31):
            raise EngineFailure(f"{self._name}: a text of {len(data)} bytes could not be cut into tokens")
        return -count if count < 0 else list(array[:count])

    def borders(self) -> tuple[list[int], list[int]]:
        runtime = llama()
        before = [runtime.llama_vocab_bos(self._handle)] if runtime.llama_vocab_get_add_bos(self._handle) else []
        after = [runtime.llama_vocab_eos(self._handle)] if runtime.llama_vocab_get_add_eos(self._handle) else []
        return before, after

    def longest(self) -> int:
        runtime = llama()
        count = runtime.llama_vocab_n_tokens(self._handle)
        return max(len(runtime.llama_vocab_get_text(self._handle, token) or b"") for token in range(count))


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        raise InvalidRequest(f"a text holds \\u{half:04x} alone, which is half of a character") from None
