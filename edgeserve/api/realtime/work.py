"""The work that a session asks its owner for."""

from __future__ import annotations

from edgeserve.api.realtime.items import Item
from edgeserve.api.realtime.response import Response
from edgeserve.dataclass import dataclass
from edgeserve.talk.forms import Form


@dataclass(frozen=True, slots=True)
class Warm:
    """The user speaks: the engines of an answer may get ready, and read its prompt.

    ``words``: the words of the turn, where it may be over.
    """

    words: str = ""


@dataclass(frozen=True, slots=True)
class Detect:
    """Sound waits for the detector of speech."""


@dataclass(frozen=True, slots=True)
class Overhear:
    """More sound of a turn under way, whose words are wanted live. ``item_id``: of the item that it will be."""

    item_id: str
    sound: bytes


@dataclass(frozen=True, slots=True)
class Draft:
    """The turn may be over: find its words ahead."""

    sound: bytes


@dataclass(frozen=True, slots=True)
class Undraft:
    """The turn continues: the draft is worthless."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Find the words of an item.

    - ``drafted``: the latest draft has heard the same speech
    - ``form``: form of the sound; None: as engines hear it
    """

    item: Item
    sound: bytes
    drafted: bool = False
    form: Form | None = None

    @property
    def size(self) -> int:
        """Bytes of the sound as engines hear it."""
        return self.form.heard(len(self.sound)) if self.form else len(self.sound)


@dataclass(frozen=True, slots=True)
class Answer:
    """Make an answer."""

    response: Response


@dataclass(frozen=True, slots=True)
class Stop:
    """An answer has been cancelled."""

    response: Response


Work = Warm | Detect | Overhear | Draft | Undraft | Settle | Answer | Stop
