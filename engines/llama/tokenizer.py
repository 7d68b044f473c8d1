"""Tokenises texts piece by piece, and stops when a text exceeds the context.

llama.cpp tokenises a text of any length at once. That takes some 100 bytes of memory for each byte of the text. Its
regular expressions recurse, so a word of 100,000 letters overflows the stack for some vocabularies
(docs/decisions/0007-what-a-request-reaches-in-llama-cpp.md). Short pieces avoid both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from edgeserve.engines.llama.runtime import llama
from edgeserve.engines.whole_texts import half_character
from edgeserve.errors import EngineFailure, InvalidRequest

PIECE = 4096
"""Characters of a piece at most."""
WORD_START = r"(?<=\w)(?= \w)|(?<=[\n。！？])(?=\w)"
"""Matches where every vocabulary begins a new word. Cut there, pieces have the tokens of the whole text."""
RUNS = (r"[^\s.,!?…。，、]+", r"[\W_]+")
"""Match what a splitter may take at once: words, and white space with punctuation."""
LONGEST_RUN = 8191
"""Longest such run in characters that any splitter may get in one call."""
MOST_TEXT = 1 << 21
"""Characters that one request has read at most where its tokens have no other bound: two seconds of work, for which
other long texts wait. White space has 64 of them a token."""
PROBE = "the"
"""A text that shows the tokens which a model adds before and after any text."""
SLACK = 8
"""Tokens that a piece may have more than the same part of the whole text."""
LEAST_LONGEST = 16
"""Least value for the bytes of the longest token: control characters and white space may take no token at all."""


class TooLong(Exception):
    """A text has too many tokens. ``count``: their number, or, if not ``exact``, a number that they exceed."""

    def __init__(self, count: int, *, exact: bool = False) -> None:
        super().__init__(count)
        self.count = count
        self.exact = exact

    def __str__(self) -> str:
        return str(self.count) if self.exact else f"more than {self.count}"


class Vocabulary(Protocol):
    """A model's vocabulary. ``joins``: the tokens of the pieces, joined, are those of the whole text."""

    joins: bool

    def split(self, data: bytes, room: int, *, add_special: bool, parse_special: bool = True) -> list[int] | int:
        """Tokens of a UTF-8 text; only their number when there are more than ``room``.

        ``parse_special``: texts of control tokens, such as "<|im_end|>", become these tokens.
        """
        ...

    def bos_eos(self) -> tuple[list[int], list[int]]:
        """Tokens that ``add_special`` adds before and after a text."""
        ...

    def longest(self) -> int:
        """Bytes of the longest token, or more."""
        ...


class Tokenizer:
    """Tokenises with one vocabulary. Any thread, several at a time."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._longest = 0

    def tokenize(
        self, text: str, *, add_special: bool, parse_special: bool = True, most: int | None = None
    ) -> list[int]:
        """Tokens of a text; ``add_special`` adds the model's own first and last tokens, such as BOS.

        ``parse_special``: as in ``Vocabulary.split``. Raises TooLong for more than ``most`` tokens, InvalidRequest for
        a text that is no Unicode.
        """
        if most is not None:
            self.check_size(len(text), most)
        if len(text) > PIECE and self._vocabulary.joins:
            return self._joined(text, add_special, most, parse_special)
        if len(text) > PIECE and most is not None and len(text) > most:
            self.check_pieces(text, most)
        return self._whole(text, add_special, most, parse_special)

    def beginning(self, text: str, most: int) -> tuple[list[int], bool]:
        """The first ``most`` tokens of a text without control tokens, and whether the text continues.

        The cost grows with ``most``, not with the text. Raises InvalidRequest for a text that is no Unicode.
        """
        end = count = 0
        for piece in pieces(text):
            end += len(piece)
            if end < len(text):
                count += max(0, len(self._whole(piece, False, None, False)) - SLACK)
                if count > most:
                    break
        tokens = self.tokenize(text[:end], add_special=False, parse_special=False)
        return tokens[:most], len(tokens) > most or end < len(text)

    def cut(self, text: str, most: int) -> list[int]:
        """The first ``most`` tokens of a text, the model's own first and last tokens among them.

        Raises InvalidRequest for a text that is no Unicode.
        """
        # Not ``bos_eos``: the last token of an encoder, such as [SEP], is no EOS.
        bare, framed = (self._whole(PROBE, add_special) for add_special in (False, True))
        at = next(at for at in range(len(framed)) if framed[at : at + len(bare)] == bare)
        before, after = framed[:at], framed[at + len(bare) :]
        tokens, _ = self.beginning(text, max(0, most - len(before) - len(after)))
        return [*before, *tokens, *after]

    def check_size(self, characters: int, most: int, *, times: int = 1) -> None:
        """Raise TooLong for a text that must have more than ``most`` tokens by its number of characters alone.

        ``times``: allow that many times the characters, because a template may leave out some of the text.
        """
        if characters > most and characters > times * most * self.longest:
            raise TooLong(most)

    def check_runs(self, text: str) -> None:
        """Check a text that the multimodal library tokenises whole. Raises InvalidRequest for a too long word."""
        # Each run is matched once. A pattern of 8,192 characters tries again from each of them: 100 KB took 10 s.
        runs = (match for run in RUNS for match in re.finditer(run, text)) if self._vocabulary.joins else ()
        if any(match.end() - match.start() > LONGEST_RUN for match in runs):
            raise InvalidRequest(f"beside a picture, a word may have {LONGEST_RUN:,} characters at most: break it up")

    @property
    def longest(self) -> int:
        """Bytes of the longest token. Read once, which takes 0.1 s."""
        if not self._longest:
            self._longest = max(LEAST_LONGEST, self._vocabulary.longest())
        return self._longest

    def _whole(self, text: str, add_special: bool, most: int | None = None, parse_special: bool = True) -> list[int]:
        data = _bytes(text)
        room = len(data) + SLACK if most is None else min(len(data) + SLACK, most)
        tokens = self._vocabulary.split(data, room, add_special=add_special, parse_special=parse_special)
        if isinstance(tokens, int):
            raise TooLong(tokens, exact=True)
        return tokens

    def _joined(self, text: str, add_special: bool, most: int | None, parse_special: bool) -> list[int]:
        before, after = self._vocabulary.bos_eos() if add_special else ([], [])
        tokens, done = before, 0
        for piece in pieces(text):
            tokens += self._whole(piece, False, None, parse_special)
            done += len(piece)
            if most is not None and len(tokens) > most:
                raise TooLong(len(tokens) + len(after) if done == len(text) else most, exact=done == len(text))
        return tokens + after

    def check_pieces(self, text: str, most: int) -> None:
        """Raise TooLong as soon as the pieces have more tokens than ``most``, allowing for differences at the cuts."""
        count = 0
        for piece in pieces(text):
            count += max(0, len(self._whole(piece, False, None)) - SLACK)
            if count > most:
                raise TooLong(most)


def pieces(text: str) -> Iterator[str]:
    """Pieces of at most PIECE characters, cut where a word begins, if a word begins in the second half."""
    at = 0
    while len(text) - at > PIECE:
        end = at + PIECE
        for border in re.compile(WORD_START).finditer(text, at + PIECE // 2, end):
            end = border.start()
        yield text[at:end]
        at = end
    yield text[at:]


class NativeVocabulary:
    """The vocabulary of a llama.cpp model. ``handle``: llama.cpp's pointer; its model must be held during calls."""

    def __init__(self, handle: Any, name: str) -> None:
        runtime = llama()
        self._handle = handle
        self._name = name
        # The other types add a space before each text, or look back further than a word.
        self.joins = runtime.llama_vocab_type(handle) == runtime.LLAMA_VOCAB_TYPE_BPE

    def split(self, data: bytes, room: int, *, add_special: bool, parse_special: bool = True) -> list[int] | int:
        array = (llama().llama_token * room)()
        count = int(llama().llama_tokenize(self._handle, data, len(data), array, room, add_special, parse_special))
        if count == -(2**31):
            raise EngineFailure(f"{self._name}: a text of {len(data)} bytes could not be cut into tokens")
        return -count if count < 0 else list(array[:count])

    def bos_eos(self) -> tuple[list[int], list[int]]:
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
        raise half_character(error) from None
