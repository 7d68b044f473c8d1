"""The phonemizer on tables says what hibari's own says, in both accents; and what is refused."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.speech import SENTENCES, STORY

from edgeserve.errors import EngineFailure, InvalidRequest
from engines.tts import hibari as tts_hibari
from engines.tts import phonemes as tts_phonemes
from engines.tts.phonemes import Phonemizers

pytestmark = pytest.mark.slow

VARIED = (
    *SENTENCES,
    *re.split(r"(?<=\.)\s", STORY),
    "Hello there.",
    "He read the book that she will read tomorrow.",
    "They live near the live show; the wind will wind down.",
    "I used to record a record in the desert, and I didn't desert it.",
    "The dove dove in, and the bass player caught a bass.",
    "Dr. Smith and Mrs. Jones met St. John on Elm St. at 7:30 p.m.",
    "On the 3rd of March 2024, 1,250 people paid $9.99 each to hear it read at 7:30 pm.",
    "It costs £4.50, €3.20 or $1,234,567.89; that's 15% off.",
    "In 1984, 1900, 2005 and 2010; the 1990s, the '80s.",
    "The temperature was -40 °C, i.e. -40 °F.",
    "Call 555-0199 or write to a.b@example.com, see https://www.example.com/a/b?c=d.",
    "NASA, the FBI, IBM's CPUs and an MP3 player.",
    "U.S.A. vs. U.K.: 2-1!",
    "“Quoted,” she said — ‘really?’ …yes!",
    "We've, you'd, they're, ain't, shouldn't've, y'all, o'clock, rock 'n' roll.",
    "state-of-the-art re-entry of a twenty-one-year-old ex-president",
    "Zorblaxian snorfles quibberdash the Frumious Bandersnatch.",
    "Café naïve façade, Zürich, São Paulo, Łódź.",
    "iPhone, eBay, YouTube, McDonald's, LaTeX.",
    "x² + y² = z², ½ of ¾, 5 > 3 & 2 < 4.",
    "A, an, the; to go, to eat, in it, by and by.",
    "Worked, wanted, buses, judges, studies, running, played, hopping, dogs'.",
    "The schedule, the lieutenant, aluminium, tomato, bath, herb, leisure.",
    "1st 2nd 3rd 4th 11th 21st 100th 1,000th",
    "0.5 3.14159 .25 1.0 007 10:05 24/7 50/50 3x4 #1 @home *star* ~5",
    "WHAT IS THIS? IT IS ALL IN CAPITALS, TO THE END.",
    "[Kokoro](/kˈOkəɹO/) is a model; (parenthetical) {braces} <tags>",
    "Sept. 5, Jan. 1, Inc., Ltd., etc., e.g., a.k.a.",
    "漢字 and русский and العربية in English",
    "one\ttwo  three",
    "777777777777777777777777777777777777",
    "'Twas brillig, and the slithy toves did gyre and gimble in the wabe.",
    "The rough-coated, dough-faced, thoughtful ploughman strode through the streets of Scarborough.",
    "She sells sea shells by the sea shore, where Peter Piper picked a peck.",
    "Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo buffalo.",
    "Had he had had, he would have had to have had it.",
    "The AM radio plays at 9 AM; I am, am I?",
    "Present the present, object to the object, close the close door.",
    "minute by minute, a minute speck; lead pipes lead here; tear a tear.",
    "www.test.org, foo@bar.co.uk, C++, C#, .NET, R&D, AT&T, Q&A",
    "$5 million, $1.5bn, 3 km, 5kg, 60mph, 10am, 8GB, 100%",
    "Mr. O'Neil-MacGregor's great-great-grandson",
    "¿Qué? ¡No! Ça va.",
    "-5 – -6 — minus seven",
    "end",
)
READ_WELL = (
    "It costs $3.50 on May 5th, 2024 at 10:30 a.m.",
    "The 3rd of 1,250,000 people paid £4.50 in 1984, 1905, 2005 or 2010.",
    "She is 5 feet tall and 21 years old, and 3.14 is pi.",
    "In the 1990s and the 80s, the 100th was -5.",
    "It is 50% of 12,345, or 70 °F in 10 minutes.",
    "Mr. Smith met Dr. Jones at 5 p.m.",
)


@pytest.fixture(scope="module")
def phonemizers(tmp_path_factory: pytest.TempPathFactory) -> Phonemizers:
    return Phonemizers(tmp_path_factory.mktemp("prepared"), (False, True))


@pytest.fixture(scope="module", params=[False, True], ids=["american", "british"])
def both(request: pytest.FixtureRequest, phonemizers: Phonemizers) -> tuple[Any, Any]:
    """hibari's own phonemizer, and ours."""
    from hibari.g2p import G2P

    return G2P(british=request.param), phonemizers[request.param]


def test_the_phonemes_are_those_of_the_package(both: tuple[Any, Any]) -> None:
    theirs, ours = both
    assert len(VARIED) >= 60
    for sentence in VARIED:
        assert ours._phonemize(sentence) == theirs(sentence)


def test_numbers_in_words_sound_as_the_package_reads_them(both: tuple[Any, Any]) -> None:
    """The sentences are some that the package reads well."""
    theirs, ours = both
    for sentence in READ_WELL:
        (said,) = ours.pieces(sentence, 1_000)
        assert _unstressed(said) == _unstressed(theirs(sentence))


def _unstressed(phonemes: str) -> str:
    """The package marks no stress on the point of a number."""
    return phonemes.replace("ˌ", "").replace("ˈ", "")


def test_the_dictionaries_are_those_of_the_package(both: tuple[Any, Any]) -> None:
    """Every twentieth entry, value for value."""
    theirs, ours = (one if hasattr(one, "lexicon") else one._phonemize for one in both)
    for stored, table in (
        (theirs.lexicon.golds.d, ours.lexicon.golds.d),
        (theirs.lexicon.silvers.d, ours.lexicon.silvers.d),
        (theirs.tagger.tagdict, ours.tagger.tagdict),
        (theirs.tagger.weights, ours.tagger.weights),
    ):
        words = list(stored)[::20]
        assert len(words) > 500
        assert all(table.get(word) == stored[word] for word in words)
    assert ours.tagger.tags == theirs.tagger.tags
    assert all(word in ours.tagger.vocab for word in theirs.tagger.vocab)
    assert vars(ours).keys() == vars(theirs).keys()


def test_the_tables_have_the_size_that_is_estimated(phonemizers: Phonemizers) -> None:
    sizes = {path.stem: path.stat().st_size for path in phonemizers.mapped}
    assert sizes == tts_phonemes.TABLE_BYTES
    assert tts_phonemes.mapped_bytes((False, True)) == sum(sizes.values())


def test_the_version_is_the_one_that_is_asked_for() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"hibari-tts=={tts_phonemes.VERSION}" in project["dependencies"]


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import hibari

    monkeypatch.setattr(hibari, "__version__", "0.3.0")
    with pytest.raises(EngineFailure, match=r"hibari-tts 0\.3\.0 is installed.* needs 0\.2\.1"):
        Phonemizers(tmp_path, (False,))


def test_a_missing_phonemizer_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "hibari", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineFailure, match="pip install hibari-tts"):
        Phonemizers(tmp_path, (False,))


def test_a_damaged_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import hibari

    monkeypatch.setattr(hibari, "__file__", str(tmp_path / "hibari" / "__init__.py"))
    with pytest.raises(EngineFailure, match="is damaged"):
        Phonemizers(tmp_path / "prepared", (False,))


def test_british_voices_are_those_of_the_package() -> None:
    from hibari.voices import VOICES

    assert {name for name, about in VOICES.items() if about["british"]} == tts_hibari.BRITISH


@pytest.mark.parametrize("limit", [20, 200])
def test_pieces_keep_the_limit_and_the_order(phonemizers: Phonemizers, limit: int) -> None:
    whole = list(phonemizers[False].pieces(STORY, 10_000))
    pieces = list(phonemizers[False].pieces(STORY, limit))
    assert max(map(len, pieces)) <= limit
    assert "".join("".join(pieces).split()) == "".join("".join(whole).split())


@pytest.mark.parametrize("text", ["", " \n ", "...", "🙂🙂🙂", "?!", "\u200d"])
def test_text_without_words_yields_nothing(phonemizers: Phonemizers, text: str) -> None:
    assert not any(phonemizers[False].pieces(text, 200))


@pytest.mark.parametrize("text", ["/" * 1_500, "? " * 500, "`\n" * 500, "." * 5_000, "\u0301" * 5_000])
def test_text_without_words_is_read_part_by_part(phonemizers: Phonemizers, text: str) -> None:
    """Its reader hears of each part, and may stop there: 262,144 slashes took four minutes."""
    assert len(list(phonemizers[False].pieces(text, 200))) >= len(text) // 1_000


def test_what_the_phonemizer_cannot_read_is_shown(phonemizers: Phonemizers, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(part: str, **options: bool) -> str:
        raise StopIteration

    monkeypatch.setattr(phonemizers[False], "_phonemize", fail)
    with pytest.raises(InvalidRequest, match=r"cannot read 'word word .*…': StopIteration") as caught:
        list(phonemizers[False].pieces("word " * 50, 200))
    assert caught.value.param == "text"


def test_a_runtime_that_fails_is_no_fault_of_the_text(
    phonemizers: Phonemizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*inputs: object) -> None:
        raise EngineFailure("out of memory")

    monkeypatch.setattr(phonemizers[False]._phonemize._oov.sess, "run", fail)
    with pytest.raises(EngineFailure, match="out of memory"):
        list(phonemizers[False].pieces("Zorblaxian.", 200))
