"""Turns of speech in a sound: where one begins, where it may be over, and where it is.

Times are seconds from the start of the sound. No clock: silence is counted in frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.talk.detection import FRAME_SECONDS, LOUDNESS

LULL_SECONDS = 0.18
"""Seconds without speech after which the turn may be over, so that its words are worth finding ahead."""

Kind = Literal["started", "lull", "resumed", "stopped"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Seconds of silence that end a turn, and seconds of sound kept before its first speech.

    - ``threshold``: probability from which a sound is speech
    - ``semantic``: the words decide (``TurnFinder.finish``); ``silence`` is then the longest wait for them, and
      ``pause`` the shortest silence behind words that are over
    """

    silence: float = 0.5
    prefix: float = 0.3
    threshold: float = 0.5
    semantic: bool = False
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Mark:
    """News of a turn: its kind, and the time that it is about."""

    kind: Kind
    at: float


class TurnFinder:
    """Finds turns in the sound of one client, from flags of its frames.

    The marks of a turn come in the order started, any number of lull and resumed, stopped.
    """

    def __init__(self, rules: Rules, since: float = 0.0) -> None:
        """``since``: the time of the first frame."""
        self.rules = rules
        self._since = since
        self.speaking = False
        """Whether a turn is under way."""
        self.lull = False
        self.speech_end = since
        """End of the last frame of speech."""
        self._over = False
        self._frames = 0
        self._latest = bytearray()

    @property
    def now(self) -> float:
        """The end of the sound that was looked at."""
        return self._since + self._frames * FRAME_SECONDS

    def feed(self, flags: Iterable[int], starts: tuple[int, int] = LOUDNESS) -> list[Mark]:
        """News in the next frames, by 1 for each frame of speech. ``starts``: as in ``Detection``."""
        marks: list[Mark] = []
        for flag in flags:
            self._frames += 1
            self._latest.append(flag)
            del self._latest[: -starts[1]]
            if flag:
                self.speech_end = self.now
            marks += self._speaking(flag) if self.speaking else self._silent(starts[0])
        return marks

    def finish(self) -> list[Mark]:
        """End the turn by its words, as soon as its silence is long enough. Nothing where no turn is in a lull."""
        self._over = self.speaking and self.lull
        return self._stop() if self._over and self._quiet(self.rules.pause) else []

    def clear(self, skipped: int = 0) -> None:
        """Forget the turn under way. The next ``skipped`` frames are not looked at."""
        self.speaking = self.lull = self._over = False
        self._frames += skipped
        self._latest.clear()

    def _silent(self, least: int) -> list[Mark]:
        if self._latest.count(1) < least:
            return []
        self.speaking, self.lull = True, False
        first = self.now - (len(self._latest) - self._latest.index(1)) * FRAME_SECONDS
        return [Mark("started", max(self._since, first - self.rules.prefix))]

    def _speaking(self, flag: int) -> list[Mark]:
        if flag and self.lull:
            self.lull = self._over = False
            return [Mark("resumed", self.now)]
        if self._quiet(self.rules.silence) or (self._over and self._quiet(self.rules.pause)):
            return self._stop()
        if not self.lull and self._quiet(min(LULL_SECONDS, self.rules.silence)):
            self.lull = True
            return [Mark("lull", self.now)]
        return []

    def _quiet(self, seconds: float) -> bool:
        """Whether the silence has lasted for so long."""
        return self.now - self.speech_end + 1e-9 >= seconds

    def _stop(self) -> list[Mark]:
        self.clear()
        return [Mark("stopped", self.now)]
