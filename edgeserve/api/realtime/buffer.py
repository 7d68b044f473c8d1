"""The buffer of the user's sound (``input_audio_buffer``), and the turns of speech in it. Time is the sound's own."""

from __future__ import annotations

from collections.abc import Iterator

from edgeserve.api.realtime.refusal import Refused
from edgeserve.messages import DetectRequest, SpeechChances
from edgeserve.talk.detection import Detection
from edgeserve.talk.forms import Form, Incoming
from edgeserve.talk.recorded import MAX_SECONDS, Recorded
from edgeserve.talk.turns import Mark, Rules, TurnFinder

LEAST_SECONDS = 0.1
"""Shortest sound that a client may commit."""
SPARE_SECONDS = 0.5
"""Seconds kept in silence beside the prefix of a turn: speech is certain only some frames after it began."""


class Buffer:
    """``rules`` of turns; None: nobody looks for turns, and the client commits the sound itself.

    ``detects``: a detector judges what is speech; without one, loudness does.
    """

    def __init__(self, source: Form, rules: Rules | None, *, detects: bool = False) -> None:
        self._incoming, self._recorded = Incoming(source), Recorded()
        self._detects = detects
        self._begin(rules)

    def _begin(self, rules: Rules | None) -> None:
        """Look for turns by ``rules`` from now on."""
        self._finder = TurnFinder(rules, self._recorded.end) if rules else None
        self._detection = Detection(rules.threshold if rules else 0.5, asks=self._detects)

    @property
    def speaking(self) -> bool:
        """Whether the user speaks."""
        return self._finder is not None and self._finder.speaking

    @property
    def end(self) -> float:
        """Seconds of sound that came since the session began."""
        return self._recorded.end

    @property
    def seconds(self) -> float:
        """Seconds of sound that wait for a commit."""
        return self._recorded.seconds

    @property
    def full(self) -> bool:
        """Whether the turn under way must end, because no more of it may be kept."""
        return self.speaking and self._recorded.seconds >= MAX_SECONDS

    def change(self, source: Form, rules: Rules | None, *, detects: bool = False) -> None:
        """Follow new settings. New rules, and another way to find speech, forget the turn under way."""
        if source != self._incoming.form:
            self._incoming = Incoming(source)
        if (rules, detects) != (self._finder.rules if self._finder else None, self._detects):
            self._detects = detects
            self._begin(rules)

    def pieces(self, sound: bytes) -> Iterator[bytes]:
        """Sound in the client's form, in pieces for ``feed`` of some milliseconds' work each. Raises InvalidRequest."""
        kept, length = self._recorded.seconds, self._incoming.form.seconds(len(sound))
        if length > MAX_SECONDS - kept and self._finder is None:
            text = f"{length:.1f} s of sound do not fit: {kept:.0f} s of {MAX_SECONDS:.0f} s wait for a commit"
            raise Refused.by("buffer_size_exceeded", f"{text}; commit or clear them", "audio")
        return self._incoming.feed(sound)

    def feed(self, piece: bytes) -> list[Mark]:
        """Keep float32 samples at 16 kHz. Returns the news of turns in them."""
        self._recorded.add(piece)
        if self._finder is None:
            return []
        flags = self._detection.feed(piece, speaking=self._finder.speaking)
        return self._finder.feed(flags, self._detection.starts)

    @property
    def waits(self) -> bool:
        """Whether sound waits for the detector."""
        return self._finder is not None and self._detection.awake

    @property
    def waiting_seconds(self) -> float:
        """Length of the sound that has no verdict."""
        return self._detection.seconds

    def question(self) -> DetectRequest | None:
        """As ``Detection.question``."""
        return self._detection.question() if self._finder else None

    def answer(self, question: DetectRequest, found: SpeechChances | None) -> list[Mark]:
        """Take the detector's verdict; None: none could be had. Returns the news of turns in it."""
        flags = self._detection.answer(question, found)
        return self._finder.feed(flags, self._detection.starts) if self._finder else []

    def give_up(self) -> list[Mark]:
        """Let loudness decide on the sound that waits. Returns the news of turns in it."""
        flags = self._detection.give_up()
        return self._finder.feed(flags, self._detection.starts) if self._finder else []

    def drop_silence(self) -> None:
        """Drop the sound before a turn that could begin now."""
        if self._finder is not None:
            looked_at = self._recorded.end - self._detection.seconds
            self._recorded.drop(looked_at - self._finder.rules.prefix - SPARE_SECONDS)

    def drop(self, until: float) -> None:
        """Drop the sound before a time."""
        self._recorded.drop(until)

    def look(self) -> bytes:
        """All sound that waits for a commit."""
        return self._recorded.look()

    def take(self) -> bytes:
        """All sound that waits for a commit. The buffer is empty then."""
        return self._recorded.take()

    def check_commit(self) -> None:
        """Raises InvalidRequest for too little sound."""
        if (seconds := self._recorded.seconds) < LEAST_SECONDS:
            text = f"the buffer holds {seconds * 1000:.0f} ms of sound; a commit takes at least"
            text = f"{text} {LEAST_SECONDS * 1000:.0f} ms: append sound first"
            raise Refused.by("input_audio_buffer_commit_empty", text)

    def finish(self, *, is_over: bool) -> list[Mark]:
        """End the turn if its words are over, where words decide."""
        if self._finder and self._finder.rules.semantic and self._finder.lull and is_over:
            return self._finder.finish()
        return []

    def cut(self) -> float:
        """Forget the turn under way, but not its sound. Returns the end of the sound that was looked at."""
        if self._finder is None:
            return self._recorded.end
        self._finder.clear(self._detection.skip())
        return self._finder.now
