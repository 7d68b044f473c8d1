"""Which words of a live transcript are certain: those that two hypotheses in a row agree on.

LocalAgreement-2 (Macháček, Dabre, Bojar 2023, "Turning Whisper into Real-Time Transcription System"). A confirmed word
is never taken back, whatever later hypotheses say.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.messages import Word

SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
RESIDUE_SECONDS = 0.4
"""A cut between two words may leave this much of the first one, which is then heard once more."""


class Agreement:
    """Words, with times in seconds from the session's start, in the order in which they were said.

    Confirmed words are told apart from the ``rest``, the part of the latest hypothesis that may still change.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._inside: list[Word] = []
        self._left: Word | None = None
        self.rest: tuple[Word, ...] = ()

    @property
    def text(self) -> str:
        """All confirmed words; it only ever grows at its end."""
        return "".join(self._texts).lstrip()

    @property
    def partial(self) -> str:
        """The rest, as it would follow the text."""
        partial = "".join(word.text for word in self.rest)
        return partial if self._texts else partial.lstrip()

    @property
    def left_text(self) -> str:
        """The confirmed words whose sound has left the window."""
        return "".join(self._texts[: len(self._texts) - len(self._inside)])

    def hear(self, words: Sequence[Word], start: float = 0.0) -> None:
        """A new hypothesis of a window that begins at ``start``: confirm where it agrees with the one before."""
        beyond = self._beyond(words, start)
        agreed = 0
        while agreed < min(len(beyond), len(self.rest)) and key(beyond[agreed]) == key(self.rest[agreed]):
            agreed += 1
        self._confirm(beyond[:agreed])
        self.rest = tuple(beyond[agreed:])

    def settle(self) -> None:
        """Confirm the rest: speech has ended, and all of it leaves."""
        self._confirm(self.rest)
        self._inside, self._left, self.rest = [], None, ()

    def leave(self, until: float) -> None:
        """The sound up to ``until`` has left the window, and the confirmed words that ended by then with it."""
        gone = sum(word.end <= until for word in self._inside)
        if gone:
            self._left = self._inside[gone - 1]
            del self._inside[:gone]

    def cut(self, *, sentence: bool) -> float | None:
        """Where the window may be cut: behind the last confirmed word, or the last that ends a sentence."""
        for word in reversed(self._inside):
            if not sentence or word.text.rstrip().endswith(SENTENCE_ENDS):
                return word.end
        return None

    def _confirm(self, words: Sequence[Word]) -> None:
        self._texts += [word.text for word in words]
        self._inside += words

    def _beyond(self, words: Sequence[Word], start: float) -> Sequence[Word]:
        """The words of a hypothesis behind those that are confirmed, which it may write otherwise."""
        if self._left and words and words[0].end - start < RESIDUE_SECONDS and key(words[0]) == key(self._left):
            words = words[1:]
        return words[covered([key(word) for word in self._inside], [key(word) for word in words]) :]


def key(word: Word) -> str:
    """What two hypotheses must have in common: not case, and not punctuation, which changes with what follows."""
    letters = "".join(one for one in word.text.casefold() if one.isalnum())
    return letters or word.text.strip()


def covered(known: Sequence[str], heard: Sequence[str]) -> int:
    """How many of the words ``heard`` say what the words ``known`` say: the prefix with the fewest edits between them
    (Levenshtein), the longest of these."""
    row = list(range(len(heard) + 1))
    for count, word in enumerate(known, start=1):
        previous, row[0] = row[0], count
        for column, other in enumerate(heard, start=1):
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, previous + (word != other))
    return max(range(len(row)), key=lambda count: (-row[count], count))
