"""The texts of Whisper's tokens, in a table of half a megabyte. A tokenizer library would hold 10 MB."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeserve.errors import EngineFailure


def byte_letters() -> Mapping[int, str]:
    """The letters of byte-level vocabularies (openai/gpt-2 encoder.py), each with its byte as a Latin-1 letter."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {**{byte: chr(byte) for byte in shown}, **{256 + index: chr(byte) for index, byte in enumerate(hidden)}}


class Tokens:
    """Texts of the ordinary tokens, and the ids of the special tokens by name (``<|name|>``)."""

    def __init__(self, file: Path) -> None:
        """Reads ``tokenizer.json``. Raises EngineFailure for a damaged file, or another kind of tokenizer."""
        self._file = file
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            if found["decoder"]["type"] != "ByteLevel":
                raise EngineFailure(f"{file}: its tokens are {found['decoder']['type']}; Whisper's are ByteLevel")
            self.special = {one["content"][2:-2]: int(one["id"]) for one in found["added_tokens"]}
            letters, texts = byte_letters(), dict[int, bytes]()
            for text, number in found["model"]["vocab"].items():
                texts[number] = text.translate(letters).encode("latin-1")
        except (ValueError, KeyError, TypeError) as error:
            raise EngineFailure(f"{file}: no tokenizer that can be read ({error!r}); pull the model again") from error
        self._ends = array("I", [0])
        for number in range(max(texts, default=-1) + 1):
            self._ends.append(self._ends[-1] + len(texts.get(number, b"")))
        self._bytes = b"".join(texts.get(number, b"") for number in range(len(self._ends) - 1))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the tokens. Bytes that are no character become U+FFFD."""
        joined = b"".join(self._bytes[self._ends[token] : self._ends[token + 1]] for token in tokens)
        return joined.decode("utf-8", errors="replace")

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, from the library's tokenizer. Only prompts are encoded, so the tokenizer is not kept."""
        from tokenizers import Tokenizer

        return list(Tokenizer.from_file(str(self._file)).encode(text, add_special_tokens=False).ids)
