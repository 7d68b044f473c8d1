"""Digits in words, with hibari's word lists: amounts of money, percentages, ordinals, decades, years, decimals."""

from __future__ import annotations

import re

MAX_CARDINAL = 15
"""Digits of the longest number that is read as a number. Longer ones, such as card numbers, are read digit by digit."""
YEARS = range(1100, 2100)
"""Numbers of four digits, without a comma, that are read as years: "nineteen eighty-four"."""

_NUMBER = r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?"
_CURRENCIES: dict[str, tuple[str, str, str, str]] = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    **{
        sign: (one, more, "", "")
        for sign, one, more in (
            ("¥", "yen", "yen"),
            ("₹", "rupee", "rupees"),
            ("₩", "won", "won"),
            ("₽", "ruble", "rubles"),
            ("₿", "bitcoin", "bitcoins"),
            ("₺", "lira", "lira"),
            ("₪", "shekel", "shekels"),
            ("₴", "hryvnia", "hryvnias"),
        )
    },
}
_SIGNS = "".join(_CURRENCIES)
_BEFORE = re.compile(rf"([{_SIGNS}])\s?({_NUMBER})")
_AFTER = re.compile(rf"({_NUMBER})\s?([{_SIGNS}])")
_ANY = re.compile(rf"({_NUMBER})(?:(st|nd|rd|th|s|'s)(?![^\W\d_]))?")
_ORDINALS = ("st", "nd", "rd", "th")


def in_words(text: str) -> str:
    """The text with every digit (0 to 9) in words, and spaces between these words and other letters. Never fails."""
    text = _BEFORE.sub(lambda match: _spaced(match, _money(match[2], match[1])), text)
    text = _AFTER.sub(lambda match: _spaced(match, _money(match[1], match[2])), text)
    return _ANY.sub(lambda match: _spaced(match, _number(match[1], match[2] or "")), text)


def digits(text: str) -> str:
    """Digits one by one: "007" is "zero zero seven"."""
    return " ".join(cardinal(int(digit)) for digit in text)


def ordinal(number: int) -> str:
    from hibari.g2p import numbers

    return _plain(numbers.ordinal(number))


def _money(amount: str, sign: str) -> str:
    one, more, small_one, small = _CURRENCIES[sign]
    whole, _, rest = amount.replace(",", "").partition(".")
    if len(whole) > MAX_CARDINAL or (rest.strip("0") and (len(rest) != 2 or not small)):
        return f"{_number(amount, '')} {more}"
    parts = []
    if int(whole) or not rest.strip("0"):
        parts.append(f"{cardinal(int(whole))} {one if int(whole) == 1 else more}")
    if rest.strip("0"):
        parts.append(f"{cardinal(int(rest))} {small_one if int(rest) == 1 else small}")
    return " and ".join(parts)


def _number(amount: str, suffix: str) -> str:
    whole, _, rest = amount.replace(",", "").partition(".")
    if len(whole) > MAX_CARDINAL or (len(whole) > 1 and whole[0] == "0"):
        return " point ".join(digits(part) for part in (whole, rest) if part) + suffix
    number = int(whole)
    if rest:
        words = f"{cardinal(number)} point {digits(rest)}"
    elif suffix in _ORDINALS:
        return ordinal(number)
    else:
        words = _year(number) if len(amount) == 4 and number in YEARS else cardinal(number)
    return _plural(words) if suffix in ("s", "'s") else words + suffix


def _plural(words: str) -> str:
    """ "nineteen nineties", "sixes", "two thousands"."""
    if words.endswith("y"):
        return f"{words[:-1]}ies"
    return f"{words}es" if words.endswith("x") else f"{words}s"


def _year(number: int) -> str:
    from hibari.g2p import numbers

    return _plain(numbers.year(number))


def cardinal(number: int) -> str:
    """A cardinal in words; ``number`` has at most 36 digits."""
    from hibari.g2p import numbers

    return _plain(numbers.cardinal(number))


def _plain(words: str) -> str:
    """Number words as the voices' phonemizer expects them: without "and", commas and hyphens."""
    return re.sub(r" and |,? |-", " ", words)


def _spaced(match: re.Match[str], words: str) -> str:
    before, after = match.string[: match.start()][-1:], match.string[match.end() :][:1]
    return f"{' ' * before.isalnum()}{words}{' ' * after.isalnum()}"
