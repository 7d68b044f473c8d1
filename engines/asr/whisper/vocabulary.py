"""Whisper's vocabulary: special tokens, suppressed tokens, and the rules for timestamps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.asr.whisper.languages import MULTILINGUAL
from edgeserve.engines.asr.whisper.tokens import Tokens
from edgeserve.errors import EngineFailure

SECONDS_PER_TIMESTAMP = 0.02
MAX_INITIAL_TIMESTAMP = 50
"""The first timestamp lies at most one second into the window (openai/whisper decoding.py)."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Token ids of one model. ``languages`` maps ISO codes to tokens, and is empty for an English-only model."""

    tokens: Tokens
    size: int
    end: int
    start: int
    previous: int
    transcribe: int
    translate: int
    no_timestamps: int
    no_speech: int
    languages: dict[str, int]
    suppressed: tuple[int, ...]
    suppressed_first: tuple[int, ...]

    @classmethod
    def load(cls, tokenizer_file: Path, config_file: Path) -> Vocabulary:
        """Raises EngineFailure for a tokenizer that lacks one of Whisper's special tokens."""
        config = json.loads(config_file.read_text(encoding="utf-8"))
        tokens = Tokens(tokenizer_file)

        def token(*names: str) -> int:
            for name in names:
                if name in tokens.special:
                    return tokens.special[name]
            raise EngineFailure(f"{tokenizer_file}: has no token <|{names[0]}|>; it is not Whisper's")

        size = int(config["vocabulary_size"])
        specials = {name: token(name) for name in ("startoftranscript", "startofprev", "transcribe", "translate")}
        specials["startoflm"] = token("startoflm")
        codes = {name: number for name, number in tokens.special.items() if len(name) in (2, 3)}
        no_timestamps, no_speech = token("notimestamps"), token("nospeech", "nocaptions")
        banned = {*config.get("suppress_ids", []), *specials.values(), no_speech, no_timestamps}
        return cls(
            tokens=tokens,
            size=size,
            end=token("endoftext"),
            start=specials["startoftranscript"],
            previous=specials["startofprev"],
            transcribe=specials["transcribe"],
            translate=specials["translate"],
            no_timestamps=no_timestamps,
            no_speech=no_speech,
            languages={name: number for name, number in codes.items() if name.isalpha()}
            if size >= MULTILINGUAL
            else {},
            suppressed=tuple(sorted(number for number in banned if 0 <= number < size)),
            suppressed_first=tuple(config.get("suppress_ids_begin", [])),
        )

    @property
    def first_timestamp(self) -> int:
        return self.no_timestamps + 1

    def prompt(self, language: str, before: Sequence[int], limit: int, *, translate: bool = False) -> list[int]:
        """The prompt of a window. ``language``: one of ``languages``; an English-only model does not use it.

        ``before``: tokens of the earlier text, of which the prompt holds the last ``limit``. ``translate``: translate
        into English, by a multilingual model.
        """
        tokens = [self.previous, *before[-limit:]] if before else []
        tokens.append(self.start)
        if self.languages:
            tokens += [self.languages[language], self.translate if translate else self.transcribe]
        return tokens

    def encode(self, text: str) -> list[int]:
        return self.tokens.encode(" " + text.strip())

    def decode(self, tokens: Sequence[int]) -> str:
        return self.tokens.decode([token for token in tokens if token < self.end])


def constrain(logits: Any, said: Sequence[int], vocabulary: Vocabulary) -> None:
    """Set the logits of forbidden tokens to -inf (openai/whisper decoding.py: the suppress and timestamp rules).

    1. Special and suppressed tokens are forbidden. The first token is neither blank nor the end.
    2. Timestamps come in pairs, except right before the end, and never go back.
    3. The first token is a timestamp within the first second.
    4. A timestamp comes next when all timestamps together are likelier than the likeliest text token.
    """
    import numpy

    first, end = vocabulary.first_timestamp, vocabulary.end
    # 1.
    logits[list(vocabulary.suppressed)] = -numpy.inf
    if not said:
        logits[list(vocabulary.suppressed_first)] = -numpy.inf
    # 2.
    if said and said[-1] >= first:
        if len(said) < 2 or said[-2] >= first:
            logits[first:] = -numpy.inf
        else:
            logits[:end] = -numpy.inf
    stamps = [token for token in said if token >= first]
    if stamps:
        pair_ended = said[-1] >= first and not (len(said) < 2 or said[-2] >= first)
        logits[first : stamps[-1] + (0 if pair_ended else 1)] = -numpy.inf
    # 3.
    if not said:
        logits[:first] = -numpy.inf
        logits[first + MAX_INITIAL_TIMESTAMP + 1 :] = -numpy.inf
    # 4.
    best_text = logits[:first].max()
    highest = logits[first:].max()
    if numpy.isfinite(highest):
        together = highest + numpy.log(numpy.exp(logits[first:] - highest).sum())
        if together > best_text:
            logits[:first] = -numpy.inf
