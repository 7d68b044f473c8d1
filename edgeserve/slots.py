"""The slots of a batching chat engine: their state, and what the owner of the device may ask of one."""

from __future__ import annotations

from typing import Literal

from edgeserve.dataclass import dataclass

SlotAction = Literal["save", "restore", "erase"]


@dataclass(frozen=True, slots=True)
class SlotState:
    """``tokens`` in the KV cache of a slot; the numbers may be older ones while an answer uses the slot (``busy``).

    drafted   tokens that its answers guessed ahead since the model is loaded
    accepted  those of them that the answers kept
    """

    busy: bool = False
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """- save: write the conversation of a slot to the file ``filename``
    - restore: put the conversation of such a file into a slot
    - erase: forget the conversation of a slot, and its copies

    ``slot`` counts from 0. A conversation can be saved and restored under its own ``salt`` only, which is
    as in ``ChatRequest``, and erased under any of the same client.
    """

    action: SlotAction
    slot: int
    filename: str = ""
    salt: str = ""


@dataclass(frozen=True, slots=True)
class SlotEvent:
    """The end of a slot request: tokens, bytes of the file, and the seconds that it took."""

    tokens: int
    size: int = 0
    seconds: float = 0.0
