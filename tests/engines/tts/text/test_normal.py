"""Numbers, dates, money, units, addresses, abbreviations and signs in words."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgeserve.engines.tts.text.normal import spoken

TABLE = {
    # Numbers.
    "0": "zero",
    "12,345": "twelve thousand three hundred forty five",
    "1,000,000,000": "one billion",
    "3.14": "three point one four",
    "version 2.0": "version two point zero",
    ".5": "point five",
    "It is -5 or −3.2": "It is minus five or minus three point two",
    "007": "zero zero seven",
    "4111111111111111": "four " + "one " * 14 + "one",
    "10k": "ten thousand",
    "1e6": "one times ten to the power of six",
    "x² = 10⁴": "x squared equals ten to the power of four",
    "1/2": "one half",
    "1 1/2 cups": "one and one half cups",
    "2½": "two and one half",
    "1,2,3": "one, two, three",
    "10-20 people": "ten to twenty people",
    "3x faster": "three times faster",
    "3x4": "three by four",
    "MP3, H2O, COVID-19": "MP three, H two O, COVID-nineteen",
    "٣ １２": "three twelve",
    # Ordinals, years, decades, roman numerals.
    "1st 2nd 3rd 12th 21st 100th": "first second third twelfth twenty first one hundredth",
    "1905, 1984, 2000, 2005, 2024": "nineteen oh five, nineteen eighty four, two thousand, two thousand five, "
    "twenty twenty four",
    "the 1990s, '80s and 1800's": "the nineteen nineties, eighties and eighteen hundreds",
    "Louis XIV, Queen Elizabeth II's": "Louis the fourteenth, Queen Elizabeth the second's",
    "World War II's end, Rocky IV": "World War two's end, Rocky four",
    "the XIX century": "the nineteenth century",
    "I met X, MIX and CIVIL": "I met X, MIX and CIVIL",
    # Dates and times.
    "May 5th, 2024": "May fifth, twenty twenty four",
    "5 May 2024": "the fifth of May twenty twenty four",
    "Jan. 3 and Feb 2024": "January third and February twenty twenty four",
    "2024-05-05": "May fifth, twenty twenty four",
    "2024/12/25": "December twenty-fifth, twenty twenty four",
    "12/25/1999": "December twenty-fifth, nineteen ninety nine",
    "5.12.2024": "the fifth of December twenty twenty four",
    "May 5-7": "May fifth to seventh",
    "10:30 a.m.": "ten thirty A.M.",
    "9:05 pm": "nine oh five P.M.",
    "at 5pm, 6 p.m.": "at five P.M., six P.M.",
    "until 5pm.": "until five P.M.",
    "10:00": "ten o'clock",
    "14:00": "fourteen hundred",
    "10:30-11:30": "ten thirty to eleven thirty",
    "9am-5pm": "nine A.M. to five P.M.",
    "16:9": "sixteen to nine",
    "24/7": "twenty four seven",
    # Money.
    "$3.50": "three dollars and fifty cents",
    "$1": "one dollar",
    "$0.99": "ninety nine cents",
    "£1.01": "one pound and one penny",
    "€20.99": "twenty euros and ninety nine cents",
    "$3.5": "three point five dollars",
    "-$5": "minus five dollars",
    "3,50 €": "three euros and fifty cents",
    "$5M, €3.5bn": "five million dollars, three point five billion euros",
    "A$2.5 million": "two point five million Australian dollars",
    "$5-$10": "five dollars to ten dollars",
    "¥1000, ₹500, ₿2": "one thousand yen, five hundred rupees, two bitcoins",
    "50¢": "fifty cents",
    # Units and signs.
    "50%, 3.5 %": "fifty percent, three point five percent",
    "5-10%": "five to ten percent",
    "20°C, 70 °F, 90°": "twenty degrees Celsius, seventy degrees Fahrenheit, ninety degrees",
    "5km, 1 kg, 60 mph": "five kilometers, one kilogram, sixty miles per hour",
    "6 ft. tall": "six feet tall",
    "6'2\"": "six foot two",
    "5 km², 100 m, 1 l, 12V": "five square kilometers, one hundred meters, one liter, twelve volts",
    "10 m/s": "ten meters per second",
    "R&D": "R and D",
    "2 + 2 = 4": "two plus two equals four",
    "C++, C# and A+": "C plus plus, C sharp and A plus",
    "~50, ≤ 5": "about fifty, less than or equal to five",
    "#1": "number one",
    "me @ home": "me at home",
    # Abbreviations.
    "Mr. Smith, Dr. Who, Prof. X": "Mr Smith, Dr Who, Professor X",
    "St. John, 12 Main St.": "Saint John, twelve Main Street.",
    "cats vs. dogs, etc.": "cats versus dogs, et cetera.",
    "pens, etc., too": "pens, et cetera, too",
    "No. 5, p. 6, pp. 7-8, Fig. 9": "Number five, page six, pages seven to eight, Figure nine",
    "the dept. head": "the department head",
    # Addresses, machines, telephones.
    "https://www.example.com/path?x=1.": "W W W dot example dot com slash path question mark x equals one.",
    "see example.co.uk/a": "see example dot co dot U K slash a",
    "first.last@example.com": "first dot last at example dot com",
    "192.168.0.1": "one nine two dot one six eight dot zero dot one",
    "v1.2.3": "version one point two point three",
    "555-1234": "five five five, one two three four",
    "+1 (555) 123-4567": "plus one, five five five, one two three, four five six seven",
    "+44 20 7946 0958": "plus four four, two zero, seven nine four six, zero nine five eight",
    # Markdown, and phonemes that are written out.
    "# Heading 1": "Heading one",
    "- a **bold** `word`": "a bold word",
    "[a link](https://x.org/1)": "a link",
    "[Kokoro](/kˈOkəɹO/) 5": "[Kokoro](/kˈOkəɹO/) five",
    # What is words already.
    "Hello... world … “ok”, isn't it?": "Hello... world … “ok”, isn't it?",
    "": "",
}


def test_the_table() -> None:
    assert {written: spoken(written) for written in TABLE} == TABLE


@given(st.lists(st.sampled_from(sorted(TABLE)), max_size=6))
@example(["+44 20 7946 0958", "1 1/2 cups"])
@example(["1/2", "May 5-7"])
def test_what_is_in_words_stays_as_it_is(parts: list[str]) -> None:
    once = spoken(" ".join(parts))
    assert spoken(once) == once


@given(st.one_of(st.text(max_size=200), st.text("0123456789.,:/-+'$€%° xkmKIVX'\"#@ab²⁴½", max_size=60)))
@example("9" * 1_000)
@example("1." * 500)
@example("1:" * 500)
@example("$" + "1," * 500)
def test_any_text_is_read_without_a_digit_left(text: str) -> None:
    assert not any(char.isdigit() for char in spoken(text))


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["a.", "1 ", "1-", "- ", "a@", "[a", "+1 ", "www.", "12:", "I", "(", "' "])
def test_long_text_is_read_once(unit: str) -> None:
    """A rule that tries again from every place takes minutes for so long a text."""
    assert spoken(unit * 8_000) is not None
