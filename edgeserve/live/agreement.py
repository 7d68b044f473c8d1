"""LocalAgreement-2: a word of a live transcript is certain once two hypotheses in a row agree on it.

Source: Macháček, Dabre, Bojar 2023, "Turning Whisper into Real-Time Transcription System". No later hypothesis takes a
confirmed word back.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.messages import Word

SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
RESIDUE_SECONDS = 0.4
"""Seconds of a word that a cut behind it may leave. The next hypothesis may repeat that word."""


class Agreement:
    """The words of a session in their order, with times in seconds from the session's start.

    The ``rest`` is the part of the latest hypothesis that may still change. All other words are confirmed.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._inside: list[Word] = []
        self._left: Word | None = None
        self.rest: tuple[Word, ...] = ()

    @property
    def text(self) -> str:
        """All confirmed words. The text grows only at its end."""
        return "".join(self._texts).lstrip()

    @property
    def partial(self) -> str:
        """The rest, in the form that follows the text."""
        partial = "".join(word.text for word in self.rest)
        return partial if self._texts else partial.lstrip()

    @property
    def left_text(self) -> str:
        """The confirmed words whose sound has left the window."""
        return "".join(self._texts[: len(self._texts) - len(self._inside)])

    def hear(self, words: Sequence[Word], start: float = 0.0) -> None:
        """Add a hypothesis of the window that begins at ``start``, and confirm words that the last one has too."""
        beyond = self._beyond(words, start)
        agreed = 0
        while agreed < min(len(beyond), len(self.rest)) and key(beyond[agreed]) == key(self.rest[agreed]):
            agreed += 1
        self._confirm(beyond[:agreed])
        self.rest = tuple(beyond[agreed:])

    def settle(self) -> None:
        """Confirm the rest at the end of speech. The sound of all words leaves the window."""
        self._confirm(self.rest)
        self._inside, self._left, self.rest = [], None, ()

    def leave(self, until: float) -> None:
        """Note that the sound up to ``until`` has left the window, with the confirmed words that ended by then."""
        gone = sum(word.end <= until for word in self._inside)
        if gone:
            self._left = self._inside[gone - 1]
            del self._inside[:gone]

    def cut(self, *, sentence: bool) -> float | None:
        """The time at which to cut the window: behind the last confirmed word, or the last one of a sentence."""
        for word in reversed(self._inside):
            if not sentence or word.text.rstrip().endswith(SENTENCE_ENDS):
                return word.end
        return None

    def _confirm(self, words: Sequence[Word]) -> None:
        self._texts += [word.text for word in words]
        self._inside += words

    def _beyond(self, words: Sequence[Word], start: float) -> Sequence[Word]:
        """The words of a hypothesis behind the confirmed words, which the hypothesis may write differently."""
        if self._left and words and words[0].end - start < RESIDUE_SECONDS and key(words[0]) == key(self._left):
            words = words[1:]
        return words[covered([key(word) for word in self._inside], [key(word) for word in words]) :]


def key(word: Word) -> str:
    """The part of a word that hypotheses are compared by: letters and digits, without case."""
    letters = "".join(one for one in word.text.casefold() if one.isalnum())
    return letters or word.text.strip()


def covered(known: Sequence[str], heard: Sequence[str]) -> int:
    """Length of the prefix of ``heard`` that is nearest to ``known`` by edits (Levenshtein); the longest of equals.

    A column of the table of distances is two numbers with a bit a word. The bits of ``up`` and ``down`` say where the
    distance is one more, or one less, than above. Source: Hyyrö 2003, "A Bit-Vector Algorithm for Computing
    Levenshtein and Damerau Edit Distances".
    """
    places: dict[str, int] = {}
    for at, word in enumerate(known):
        places[word] = places.get(word, 0) | 1 << at
    up, down, all_, last = (1 << len(known)) - 1, 0, (1 << len(known)) - 1, 1 << len(known) >> 1
    distance = least = len(known)
    nearest = 0
    for count, word in enumerate(heard if known else (), start=1):
        same = places.get(word, 0)
        level = ((same & up) + up ^ up) | same
        more, less = down | all_ & ~(level | up), up & level  # than the column before
        distance += bool(more & last) - bool(less & last)
        more, less = more << 1 | 1, less << 1
        up, down = (less | ~(same | down | more)) & all_, more & (same | down) & all_
        if distance <= least:
            least, nearest = distance, count
    return nearest
