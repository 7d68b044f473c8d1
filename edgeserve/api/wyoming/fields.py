"""Data of the events that clients send."""

from __future__ import annotations

from edgeserve.api.fields import NAME_CHARS
from edgeserve.api.schema import Object, Record
from edgeserve.api.sound import languages
from edgeserve.api.values import Integer, Text, Texts

MOST_HINTS, HINT_CHARS = 1000, 200
PROMPT_CHARS = 4096
"""Characters of all hints that are kept, the last ones: a connection keeps them, and no model reads as many."""
RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
"""Rates of sound in Hz that are understood. The filter for any other rate may have a million coefficients."""
WIDTHS = (2, 4)
"""Bytes of a sample that are understood. Programs disagree whether one byte has a sign."""


class Known(Record):
    """An event of a newer client may have more fields."""

    OPEN = True


class Ping(Known):
    text = Text("comes back", limit=NAME_CHARS)


class SelectProgram(Known):
    name = Text("a served model, or edgeserve: the defaults", limit=NAME_CHARS)


class Transcribe(Known):
    name = Text("a served model; left out: the default", limit=NAME_CHARS)
    language = Text(languages.WORDS, limit=NAME_CHARS)
    transcript_names = Texts("names that may be said", MOST_HINTS, chars=HINT_CHARS)
    transcript_terms = Texts("words of the subject that may be said", MOST_HINTS, chars=HINT_CHARS)

    @property
    def prompt(self) -> str:
        """The hints as earlier text, the names last: models remember the end best."""
        return ", ".join((*self.transcript_terms, *self.transcript_names))[-PROMPT_CHARS:]


class SoundForm(Known):
    """The form of sound: whole numbers, little-endian."""

    rate = Integer("samples a second", 1, 1_000_000, default=16_000)
    width = Integer("bytes of a sample", 1, 8, default=2)
    channels = Integer("", 1, 8, default=1)

    def check(self) -> None:
        """Raises InvalidRequest for a form that is not understood."""
        if self.rate not in RATES:
            raise self.error("rate", f"is {self.rate}; known are {', '.join(map(str, RATES))}")
        if self.width not in WIDTHS:
            raise self.error("width", f"is {self.width}; known are 2 and 4 bytes a sample, whole numbers with a sign")


class Voice(Known):
    name = Text("one of the voices in info", limit=NAME_CHARS)
    language = Text("without a name: a voice of this language", limit=NAME_CHARS)
    speaker = Text("of a voice with several", limit=NAME_CHARS)


class Spoken(Known):
    voice = Object("left out: the default", Voice)
    text_format = Text("text", limit=NAME_CHARS)

    def check(self) -> None:
        """Raises InvalidRequest for a text with marks that no voice here reads."""
        if self.text_format not in ("", "text"):
            raise self.error("text_format", f"{self.text_format!r} is not understood; send text")


class SynthesizeStart(Spoken):
    pass


class Synthesize(Spoken):
    text = Text("the text to say", required=True, limit=lambda limits: limits.max_text_chars)


class SynthesizeChunk(Known):
    text = Text("the next part of the text", limit=lambda limits: limits.max_text_chars)


class Context(Known):
    conversation_id = Text("one for all turns of a conversation", limit=NAME_CHARS)


class Asked(Known):
    """``transcript``: words for the conversation."""

    text = Text("what the user said", required=True, limit=lambda limits: limits.max_text_chars)
    context = Object("", Context)
