"""Ends of sentences, and full stops that end none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.speech import STORY

from edgeserve.engines.tts.text.sentences import sentences

ONE = (
    "J. R. R. Tolkien met J. A. Smith.",
    "Mr. and Mrs. Jones saw Dr. Who and St. John.",
    "It opens at 10:30 a.m. Monday to Friday.",
    "See e.g. Paris, i.e. France, cf. Rome vs. London, etc. and so on.",
    "On Jan. 5, Sept. 3 and Dec. 24 we met.",
    "No. 5 is alive, so are nos. 6 and 7, p. 8, pp. 9 and Fig. 10.",
    "The U.S. Army and Apple Inc. California agreed.",
    "Pi is 3.14159 and e is 2.71.",
    "Wait... what did you say?",
    "This line wraps\nin the middle.",
    "Version 1.2.3 is at www.example.com. now",
    "approx. 5 miles from Elm St. to Main St.",
)
SEVERAL = (
    ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
    ("He left at 10 a.m. She stayed.", ["He left at 10 a.m.", "She stayed."]),
    ("I bought pens, ink, etc. The rest I had.", ["I bought pens, ink, etc.", "The rest I had."]),
    ("We live on Elm St. It is quiet.", ["We live on Elm St.", "It is quiet."]),
    ("He works at Foo Inc. But not today.", ["He works at Foo Inc.", "But not today."]),
    ('"Stop!" He ran. (All of it.)', ['"Stop!"', "He ran.", "(All of it.)"]),
    ("Then “no.” And…  Done", ["Then “no.”", "And…", "Done"]),
    ("So do I. He knows.", ["So do I.", "He knows."]),
    ("I said no. Then I left.", ["I said no.", "Then I left."]),
    ("I slept... Then I woke.", ["I slept...", "Then I woke."]),
    ("Title\n\nText of it.\n- one\n- two", ["Title", "Text of it.", "- one", "- two"]),
    ("It was 1984. 50 people came.", ["It was 1984.", "50 people came."]),
    ("", []),
    (" \n\t\n ", []),
)


@each("text", ONE)
def test_one_sentence(text: str) -> None:
    assert list(sentences(text)) == [" ".join(text.split())]


@each(("text", "parts"), SEVERAL)
def test_several_sentences(text: str, parts: list[str]) -> None:
    assert list(sentences(text)) == parts


def test_a_story() -> None:
    assert len(list(sentences(STORY))) == STORY.count(".")


@given(st.text("aA .!?\n\"'”e.gDr5", max_size=200))
def test_nothing_but_space_is_lost(text: str) -> None:
    parts = list(sentences(text))
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part and part == part.strip() for part in parts)
