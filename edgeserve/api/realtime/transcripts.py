"""The words of the user as events: some while the user speaks, and all at the end of the turn."""

from __future__ import annotations

from edgeserve.api.realtime.conversation import Tell
from edgeserve.api.realtime.refusal import words
from edgeserve.errors import EdgeserveError
from edgeserve.talk.overhearing import remainder

KIND = "conversation.item.input_audio_transcription"


class Transcripts:
    """``tell`` sends an event, by its type and fields."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._live: dict[str, str] = {}
        """Live words that were sent, by the item."""

    def overheard(self, item_id: str, text: str) -> None:
        """Words that have become certain while the user speaks."""
        self._live[item_id] = self._live.get(item_id, "") + text
        self._delta(item_id, 0, text)

    def completed(self, item_id: str, part: int, text: str, seconds: float) -> None:
        """The whole transcript of an item's sound of so many seconds."""
        self._delta(item_id, part, remainder(self._live.pop(item_id, ""), text))
        usage = {"type": "duration", "seconds": round(seconds, 3)}
        self._tell(f"{KIND}.completed", item_id=item_id, content_index=part, transcript=text, usage=usage)

    def failed(self, item_id: str, error: EdgeserveError) -> None:
        self._live.pop(item_id, None)
        self._tell(f"{KIND}.failed", item_id=item_id, content_index=0, error=words(error))

    def forget(self, item_id: str) -> None:
        """The turn that this item was to be is given up."""
        self._live.pop(item_id, None)

    def _delta(self, item_id: str, part: int, text: str) -> None:
        if text:
            self._tell(f"{KIND}.delta", item_id=item_id, content_index=part, delta=text)
