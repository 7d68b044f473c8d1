"""Numbers that are none (NaN) in the KV cache: with a large scale of an adapter, a model may overflow to them.

llama.cpp multiplies the cells of other sequences, and cells that are free again, by 0. NaN stays NaN: one such cell
would spoil the answers of all clients from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from edgeserve.engines.llama.context import Context, Item
from edgeserve.engines.llama.slot import Share, Slot
from edgeserve.engines.llama.swapper import Swapper
from edgeserve.errors import Busy, EngineFailure, InvalidRequest


class Spoilt:
    """Finds spoilt sequences of a context, and frees all others of them. One thread at a time."""

    def __init__(self, context: Context, slots: Sequence[Slot], swapper: Swapper) -> None:
        self._context, self._slots, self._swapper = context, slots, swapper

    @property
    def looks(self) -> bool:
        """Whether a slot has adapters."""
        return any(slot.adapters for slot in self._slots)

    def items(self, shares: Iterable[Share]) -> Iterator[Item]:
        """The tokens of a call. Where ``look`` looks, the last one of each slot has logits."""
        looks = self.looks
        for share in shares:
            slot, last = share.slot, len(share.tokens if looks else share.slot.pending) - 1
            for offset, token in enumerate((*share.tokens, *share.draft)):
                yield Item(token, slot.position + offset, slot.sequence, offset >= last)

    def apart(self, slots: Sequence[Slot]) -> Sequence[Slot]:
        """Choose the slots that may share the next call. ``slots``: with the same adapters.

        An answer about a picture cannot begin anew, so that nobody else's adapters may spoil it within a call.
        """
        first = min(slots, key=lambda one: one.stepped, default=None)
        if first is None or not first.adapters:
            return slots
        return [first] if first.alone or first.opaque else [one for one in slots if not (one.alone or one.opaque)]

    def look(self, shares: Iterable[Share]) -> None:
        """End the answers that the latest call spoilt. All others go on. Must come before the next call."""
        if not self.looks:
            return
        last, found = -1, []
        for share in shares:
            last += len(share.tokens) + len(share.draft)  # refused drafts leave their cells to others
            if self._context.spoilt(last):
                found.append(share.slot)
        if found:
            self._end(found)

    def ended(self, slot: Slot, is_spoilt: Callable[[], bool]) -> bool:
        """End what the job under way of a slot spoilt, as ``look`` does. True where the slot holds none of it now.

        A cancel may come behind any job, and would leave the cells to others.
        """
        if not self.looks or not is_spoilt():
            return False
        self._end([slot])
        return True

    def _end(self, found: Sequence[Slot]) -> None:
        """End the answer with adapters that was found.

        Of several, one has spoilt the others, so each reads its tokens again in calls of its own. Without adapters, an
        answer is spoilt by those of another one, and begins anew.
        """
        own = [one for one in found if one.adapters]
        causes = own if len(own) == 1 else [one for one in self._slots if one.busy and one.adapters and not own]
        self._wipe({*found, *causes})
        for slot in {*found, *causes}:
            if slot not in causes and (causes or own):
                self._begin_anew(slot)
                slot.alone = True
                continue
            self._swapper.empty(slot)
            text = "with these adapters and scales, the model computes no numbers any more; choose smaller scales"
            broken = f"{self._context.model.path}: the model computes no numbers (NaN)"
            slot.error = InvalidRequest(text, param="lora") if slot.adapters else EngineFailure(broken)

    def _wipe(self, spoilt: Collection[Slot]) -> None:
        """Write zeros into all cells, and restore those of all slots but the spoilt ones."""
        context, others = self._context, [one for one in self._slots if one.cells and one not in spoilt]
        for slot in others:
            if slot.idle:
                self._swapper.evict(slot)
        kept = {slot: context.save(slot.sequence) for slot in others if slot.busy}
        context.wipe()
        for slot, data in kept.items():
            if data is None or not context.restore(slot.sequence, data):
                self._begin_anew(slot)

    def _begin_anew(self, slot: Slot) -> None:
        """Let an answer read its tokens again. One about a picture cannot, and ends."""
        again, movable = [*slot.tokens, *slot.pending], not slot.opaque
        if slot.whole:
            self._swapper.drop(slot)
            return
        self._swapper.empty(slot)
        slot.pending = again if movable else []
        if not movable:
            slot.error = Busy("the cells of this answer were lost; try again", retry_after=1)
