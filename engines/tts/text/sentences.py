"""English text as sentences. Abbreviations, initials, decimals and wrapped lines end no sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WRAPPED = re.compile(r"(?<=[^\s])[^\S\n]*\n[^\S\n]*(?=[a-z])")
"""The end of a line that continues in small letters."""
_END = re.compile(r"(?<=[.!?…])[\"”’')\]]*\s+(?=\S)")
_WORD = re.compile(r"[\w.&'’-]*$")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
"""Initials, and abbreviations of the same form: J, U.S, a.m."""
_OPENING = re.compile(r"[\"“'‘(\[]*")
_CLOSING = "!?…,:;'’\"”)]"
LONGEST = 40
"""Characters of a word that are examined."""

_NEVER = _set(
    "Mr Mrs Ms Mx Dr Prof Mt Ft Gen Gov Sen Rep Capt Lt Col Sgt Cmdr Rev Hon Pres Supt Cpl Maj Adm Fr Msgr Messrs "
    "e.g i.e cf vs viz approx ca al Fig Figs Eq Nos pp Vol"
)
"""Abbreviations that never end a sentence."""
_SELDOM = _set(
    "etc St Jr Sr Inc Ltd Co Corp Bros LLC Ave Blvd Rd Ln Hwy Pkwy Ste Apt Bldg Dept Univ Assn Govt est ed eds hr hrs "
    "lb lbs oz Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thurs Fri Sat Sun "
    "Ph.D M.Sc B.Sc"
)
"""Abbreviations that may end a sentence; the next word decides."""
_NUMBERED = _set("No Nos no nos p pp ch vol Vol fig Fig Eq Ch Art Sec Jan Feb Mar Apr Jun Jul Aug Sep Sept")
"""Abbreviations that end no sentence before a number, though some of them are words, too."""
_STARTERS = _set(
    "A After All Although An And Another As At Because Before But By Do Did Does During Each Even Every First For From "
    "Had Has Have He Her Here His How However I If In Is It Its Let Many Most My No Not Now Of On Once One Or Our She "
    "Since So Some Still That The Their Then There These They This Those Though Thus To Today Two Under Until Was We "
    "Were What When Where Which While Who Why Will With Yes Yet You Your"
)
"""Words that begin a sentence far more often than they begin a name."""


def sentences(text: str) -> Iterator[str]:
    """Sentences in order, none empty. A line break ends a sentence unless the next line continues in small letters."""
    for line in _WRAPPED.sub(" ", text).splitlines():
        start = 0
        for match in _END.finditer(line):
            if _ends(line, match.start(), match.end()):
                if sentence := line[start : match.start()].strip():
                    yield sentence + match[0].strip()
                start = match.end()
        if sentence := line[start:].strip():
            yield sentence


def _ends(line: str, stop: int, after: int) -> bool:
    """Whether a sentence ends at a mark; ``stop``: one past the mark, ``after``: the next word.

    1. A small letter continues.
    2. !, ? and ... end.
    3. An abbreviation that numbers follow continues before a number.
    4. A title continues.
    5. After other abbreviations, and after initials, the next word decides.
    6. Everything else ends.
    """
    if line[after].islower():
        return False
    if line[stop - 1] != "." or line[stop - 2 : stop] == "..":
        return True
    found = _WORD.search(line, max(0, stop - LONGEST), stop - 1)
    word = found[0].lstrip("'’") if found else ""
    if line[after].isdigit() and (word in _NUMBERED or word in _SELDOM):
        return False
    if word in _NEVER:
        return False
    if word in _SELDOM or (word != "I" and _DOTTED.fullmatch(word)):
        following = line[after : after + LONGEST].split(maxsplit=1)[0]
        return _OPENING.sub("", following, count=1).rstrip(_CLOSING) in _STARTERS
    return True
