"""English text in words alone: numbers, dates, money, units, addresses and signs as they are said.

hibari's own normaliser reads times, dates, units, titles and most signs well. The rules here are applied before it, to
text that it reads wrongly or leaves out. ``numerals`` is applied after it, to digits that it leaves.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

from edgeserve.engines.tts.text import numerals
from edgeserve.engines.tts.text.numerals import digits

_Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

NUM = r"\d+(?:,\d{3})*(?:\.\d+)?"
MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|"
    r"Nov(?:ember)?|Dec(?:ember)?)"
)
_NAMES = "January February March April May June July August September October November December"
NAMES = ("", *_NAMES.split())
ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")

_PHONEMES = re.compile(r"(\[[^\]]+\]\(/[^)]*/\))")
"""[word](/phonemes/): the phonemizer takes the phonemes as they are."""
_RAISED = re.compile(r"(?<=[\w)])(?:[⁻⁰¹²³⁴-⁹]{2,}|[⁰¹⁴-⁹])")
_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def _table(words: str) -> dict[str, str]:
    """ "l liter, L liter" """
    return dict(pair.split(maxsplit=1) for pair in words.split(", "))


_ADDRESS_SIGNS = _table(
    ". dot, / slash, - dash, _ underscore, @ at, : colon, ? question mark, = equals, & and, # hash, % percent, + plus, "
    "~ tilde"
)
_MORE_ABBREVIATIONS = _table(
    "dept department, govt government, assoc association, avg average, misc miscellaneous, incl including, "
    "excl excluding, max maximum, ca circa, tel telephone"
)
_UNITS = _table(
    "l liter, L liter, mL milliliter, m meter, g gram, h hour, V volt, W watt, dB decibel, kcal kilocalorie, "
    "km² square kilometer, km2 square kilometer, m² square meter, m2 square meter, cm² square centimeter, "
    "mm² square millimeter, mi² square mile, ft² square foot, m³ cubic meter, m3 cubic meter, cm³ cubic centimeter"
)
_DOLLARS = _table("A Australian, AU Australian, C Canadian, CA Canadian, NZ New Zealand, HK Hong Kong")
_BIG = _table("k thousand, m million, mn million, b billion, bn billion, tn trillion")


def spoken(text: str) -> str:
    """One line of text as words and punctuation, without a digit. Words stay as they are. Never fails."""
    parts = _PHONEMES.split(text)
    return "".join(part if index % 2 else _spoken(part) for index, part in enumerate(parts)).strip()


def unmarked(text: str) -> str:
    """One line of text with [word](/phonemes/) as the word alone, for a phonemizer of another alphabet.

    Not for a whole text: the time grows with the square of the length, and no other thread runs meanwhile.
    """
    return _PHONEMES.sub(lambda match: match[0][1 : match[0].index("]")], text)


def _spoken(text: str) -> str:
    from hibari.g2p.normalize import normalize

    lead, trail = " " * text[:1].isspace(), " " * text[-1:].isspace()
    text = "".join(map(_ascii_digit, _RAISED.sub(_power, text)))
    for pattern, said in _BEFORE:
        text = pattern.sub(said, text)
    text = str(normalize(text))
    for pattern, said in _AFTER:
        text = pattern.sub(said, text)
    text = " ".join(numerals.in_words(text).split())
    return f"{lead}{text}{trail}" if text else lead or trail


def _ascii_digit(char: str) -> str:
    """Digits of other scripts and superscripts as 0 to 9; ² and ³ have words of their own."""
    value = unicodedata.digit(char, None) if char not in "²³" else None
    return char if value is None else str(value)


def _power(match: re.Match[str]) -> str:
    return " to the power of " + match[0].translate(_LOWERED)


def _address(match: re.Match[str]) -> str:
    bare = re.sub(r"^\w+://", "", match[0]).rstrip("/")
    words = "".join(f" {_ADDRESS_SIGNS[char]} " if char in _ADDRESS_SIGNS else char for char in bare)
    words = re.sub(r"\bwww\b", "W W W", words)
    words = re.sub(r"(?<=dot )(?:uk|us|de|fr|io|ai|tv|eu|ca|au|ch|nl)\b", lambda name: " ".join(name[0].upper()), words)
    return f" {words} "


def _groups(match: re.Match[str]) -> str:
    """A telephone number: digit by digit, with a pause after each group."""
    plus = "plus " * match[0].startswith("+")
    return plus + ", ".join(digits(group) for group in re.findall(r"\d+", match[0]))


def _dotted(match: re.Match[str]) -> str:
    """Versions and IP addresses: 1.2.3, 192.168.0.1."""
    parts = match[2].split(".")
    joint = " dot " if len(parts) == 4 else " point "
    return "version " * bool(match[1]) + joint.join(part if len(part) < 3 else digits(part) for part in parts)


def _day_first(match: re.Match[str]) -> str:
    day, month = int(match[1]), int(match[2])
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return match[0]
    return f"the {numerals.ordinal(day)} of {NAMES[month]} {match[3]}"


def _days(match: re.Match[str]) -> str:
    if not (1 <= int(match[2]) <= 31 and 1 <= int(match[3]) <= 31):
        return match[0]
    return f"{match[1]} {numerals.ordinal(int(match[2]))} to {numerals.ordinal(int(match[3]))}"


def _roman(match: re.Match[str]) -> str:
    """Roman numerals: ordinals for kings and centuries, cardinals for everything else."""
    from hibari.g2p.normalize import ROMAN_ORDINAL
    from hibari.g2p.normalize import _roman as value

    name, numeral, rest = match[1] or "", match[2], match[3] or ""
    if not ROMAN.fullmatch(numeral):
        return match[0]
    number = int(value(numeral))
    if not number:
        return match[0]
    if rest.strip().lower().startswith("centur"):
        return f"{name}{numerals.ordinal(number)}{rest}"
    if name.strip() in ROMAN_ORDINAL:
        return f"{name}the {numerals.ordinal(number)}{rest}"
    return f"{name}{numerals.cardinal(number)}{rest}"


def _unit(match: re.Match[str]) -> str:
    one = _UNITS[match[2]]
    more = "square feet" if one == "square foot" else f"{one}s"
    return f"{match[1]} {one if match[1] == '1' else more}"


def _dollars(match: re.Match[str]) -> str:
    big = f" {_BIG.get(match[3].lower(), match[3])}" if match[3] else ""
    return " ".join(f"{match[2]}{big} {_DOLLARS.get(match[1], '')} dollars".split())


def _rules(*pairs: tuple[str, str | Callable[[re.Match[str]], str]]) -> Iterator[_Rule]:
    return ((re.compile(pattern), said) for pattern, said in pairs)


_alternatives = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_domains = "com|org|net|edu|gov|io|co|uk|de|fr|info|biz|us|ca|au|tv|ai|dev|app|eu|ch|nl|onion|local"
_BEFORE: tuple[_Rule, ...] = tuple(
    _rules(
        # Marks of markdown: headings, quotes, bullets, code, links.
        (r"^\s*(?:#{1,6}|>+|[-*•])\s+", ""),
        (r"^\s*(?:[-*_]\s*){3,}$", ""),
        (r"`+", ""),
        (r"!?\[([^\]]*)\]\((?!/[^)]*/\))[^)]*\)", r"\1"),
        ("[−‐‑]", "-"),
        # Addresses, versions, telephone numbers.
        (r"(?:https?|ftp)://[^\s<>\"”]*[^\s<>\"”.,;:!?)\]'’]", _address),
        (r"(?<![\w@.])www\.[^\s<>\"”]*[^\s<>\"”.,;:!?)\]'’]", _address),
        (r"(?<![\w@.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,}", _address),
        (rf"(?<![\w@.-])(?:[\w-]{{1,63}}\.){{1,8}}(?:{_domains})\b(?:/[^\s<>\"”]*[^\s<>\"”.,;:!?)\]'’])?", _address),
        (r"(?<![\w.])(?:\+?\d{1,3}[ .-]?)?\(\d{3}\)[ -]?\d{3}[-. ]\d{4}(?!\w)", _groups),
        (r"(?<![\w.])(?:\+?1[ .-])?\d{3}([.-])\d{3}\1\d{4}(?!\w)", _groups),
        (r"\+\d{1,3}(?:[ .-]\(?\d{1,5}\)?){2,6}(?![\w,./]*\d)", _groups),
        (r"(?<![\w.,+-])0\d{2,4} \d{3,4} ?\d{3,4}(?![\w,.]*\d)", _groups),
        (r"(?<![\w.])(\d{1,2})\.(\d{1,2})\.(\d{4})(?![\w.]*\d)", _day_first),
        (r"(?<![\w.])(\d{4})/(\d{2})/(\d{2})(?![\w/])", r"\1-\2-\3"),
        (r"(?<![\w.])([vV]\.?)?(\d+(?:\.\d+){2,})(?![\w]|\.\d)", _dotted),
        (r"\b[vV](?=\d+\.\d)", "version "),
        # Amounts.
        (r"\b(US|AU?|CA?|NZ|HK)\$(" + NUM + r")(?:\s?(thousand|million|billion|trillion|[kKmMbB]n?\b))?", _dollars),
        (rf"([$£€¥])\s?({NUM})\s?(bn|mn|tn)\b", lambda match: f"{match[1]}{match[2]} {_BIG[match[3]]}"),
        (rf"(?<![\w.])({NUM})\s?(bn|mn|tn)\b", lambda match: f"{match[1]} {_BIG[match[2]]}"),
        (r"([$£€]\s?\d+),(\d\d)(?![\d,])", r"\1.\2"),
        (r"(?<![\d,])(\d+),(\d\d)(?=\s?€)", r"\1.\2"),
        (rf"(?<![\w.])-(?=[$£€]\s?{NUM})", "minus "),
        (rf"([$£€]\s?{NUM}[kKmMbB]?)\s?[-–]\s?(?=([$£€]?)\d)", r"\1 to "),
        (r"(?<=[\d%°])\s?–\s?(?=[\d$£€])", " to "),
        (r"(?<=\d)%\s?-\s?(?=\d)", "% to "),
        (rf"(?<![\w.-])(\d+)\s?-\s?(?={NUM}\s?(?:%|°|percent))", r"\1 to "),
        (r"(?i)(:\d\d(?: ?[ap]\.?m\.?)?|\d ?[ap]m)\s?[-–]\s?(?=\d{1,2}(?::\d\d| ?[ap]m))", r"\1 to "),
        (r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([+-]?\d+)\b", r"\1 times 10 to the power of \2"),
        (r"(?<![\w.])\.(\d+)", lambda match: f"point {digits(match[1])}"),
        (r"(?<![\w.,])(?!401k)(\d+(?:\.\d+)?)k\b", r"\1 thousand"),
        (r"(?<![\w.])(?!0x)(\d+(?:\.\d+)?)(?:x| x )(?=\d)", r"\1 by "),
        (r"(?<![\w.])(?!0x)(\d+(?:\.\d+)?)x\b", r"\1 times"),
        (r"(?<![\w.])(\d) ?(½|¼|¾)", r"\1 and \2"),
        (r"(?<![\w./])(\d+) (\d{1,2}/\d{1,2})(?![\w./])", r"\1 and \2"),
        (r"\b50[-/]50\b", "fifty fifty"),
        (r"\b24/7\b", "twenty four seven"),
        (r"(?<![\w:.])(\d{1,3}):(\d)(?![\d:])", r"\1 to \2"),
        (r"(?<![\w:])(1[3-9]|2[0-3]):00(?![\d:]|\s?[aApP]\.?[mM])", r"\1 hundred"),
        (
            r"(?<=\d) ?([ap])(?:\.m\.?|m)(?!\w)(?=(\.?))",
            lambda match: f" {match[1].upper()}.M{'' if match[2] else '.'}",
        ),
        # Units that hibari's tables lack, feet and inches.
        (r"(?<![\w.])(\d{1,2})['′]\s?(\d{1,2})(?:[\"″”]|'')", r"\1 foot \2"),
        (rf"(?<![\w.])({NUM})(?:″|'')", r"\1 inches"),
        (rf"(?<![\w.])({NUM})′", r"\1 feet"),
        (rf"(?<![\w.$£€])({NUM}) in\.(?= [a-z]|,)", r"\1 inches"),
        (rf"(?<![\w.$£€])({NUM}) ?(km|ft|lb|lbs|oz|cm|mm|kg|hr|hrs|min|sec|yd|mi)\.(?= [a-z]|,)", r"\1 \2"),
        (rf"(?<![\w.$£€])({NUM}) ?m/s\b", r"\1 meters per second"),
        (rf"(?<![\w.,$£€])({NUM}) ?({_alternatives})(?![\w'’²³])", _unit),
        # Dates and years in parts.
        (rf"\b({MONTH})\.? (\d{{1,2}})\s?[-–]\s?(\d{{1,2}})\b(?![:%])", _days),
        (rf"\b({MONTH})\.? (?=['’]?\d\d)", r"\1 "),
        (r"\b(Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)(?= ['’]?\d)", lambda match: _month(match[1])),
        (r"(?<!\w)['’](?=\d\ds?\b)", ""),
        (r"\b(\d+0)['’]s\b", r"\1s"),
        (r"\b([A-Z][a-z]+ )?([IVX]{1,5})(?:th)?( (?:century|Century|centuries|Centuries))\b", _roman),
        (r"\b([A-Z][a-z]+ )([IVX]{2,5})((?:['’]s)?)(?![\w'’]|\.\w)", _roman),
        # Abbreviations and signs.
        (r"\bp\. ?(?=\d)", "page "),
        (r"\bext\. ?(?=\d)", "extension "),
        (rf"\b({'|'.join(_MORE_ABBREVIATIONS)})\.(?=\s)", lambda match: _MORE_ABBREVIATIONS[match[1]]),
        (r"\betc\.(?=\s+[a-z]|[,;:)])", "et cetera"),
        (r"\betc\.", "et cetera."),
        (r"\b([A-G])#(?!\w)", r"\1 sharp"),
        (r"<=|≤", " less than or equal to "),
        (r">=|≥", " greater than or equal to "),
        (r"!=|≠", " not equal to "),
        (r"[~≈]\s?(?=[\d$£€])", "about "),
        (r"[-=]>", " to "),
        ("∞", " infinity "),
        ("π", " pi "),
        ("√", " square root of "),
    )
)
_AFTER: tuple[_Rule, ...] = tuple(
    _rules(
        (r"\s?%", " percent"),
        (r"\+", " plus "),
        ("&", " and "),
        ("@", " at "),
        (r"(?<=\d)/(?=\d)", " slash "),
        (r"(?<=[^\W_])/(?=[^\W_])", " "),
        (r"(?<![\w)\]])-(?=\d)", "minus "),
        (r"(?<=\d),(?=\d{1,2}(?!\d)|\d{4})", ", "),
        (r" +(?=[,.;:!?])", ""),
    )
)


def _month(short: str) -> str:
    return next(name for name in NAMES if name.startswith(short[:3]))
