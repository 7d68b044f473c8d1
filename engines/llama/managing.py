"""Slots saved, restored and erased by hand, as in llama.cpp's own server (``/slots``)."""

from __future__ import annotations

import time

from edgeserve.errors import Busy, EngineFailure, Forbidden, InvalidRequest, NotSupported
from edgeserve.messages import SlotEvent, SlotRequest
from engines.llama.adapters import Active
from engines.llama.batch import Batch
from engines.llama.cache import Disk, SavedState
from engines.llama.slot import Slot


def manage(batch: Batch, request: SlotRequest, adapters: Active) -> SlotEvent:
    """Do what is asked of a slot, between two steps. Raises the errors of ``SlotKeeper.manage_slot``.

    ``adapters``: those that belong to the model. Conversations with others are neither saved nor restored.
    """
    started = time.perf_counter()
    if not 0 <= request.slot < len(batch.slots):
        raise InvalidRequest(f"there are slots 0 to {len(batch.slots) - 1}, and no slot {request.slot}", param="slot")
    slot = batch.slots[request.slot]
    if slot.busy:
        raise Busy(f"slot {request.slot} is making an answer; try again", retry_after=2)
    if request.action == "erase":
        tokens, size = _erase(batch, slot), 0
    else:
        salt = batch.context.model.adapters.salted(request.salt, adapters)
        if request.action == "save":
            tokens, size = _save(batch, slot, request, salt)
        else:
            tokens, size = _restore(batch, slot, request, salt)
            batch.occupy(slot, salt, adapters)
    return SlotEvent(tokens, size, time.perf_counter() - started)


def _save(batch: Batch, slot: Slot, request: SlotRequest, salt: str) -> tuple[int, int]:
    """Tokens and bytes written."""
    disk = _disk(batch)
    if not slot.cells:
        raise InvalidRequest(f"slot {request.slot} is empty", param="slot")
    if slot.opaque or not slot.tokens:
        raise InvalidRequest(f"slot {request.slot} holds pictures, and cannot be saved", param="slot")
    if slot.salt != salt:
        who = "another client, key or prompt_cache_key, or one with adapters that requests choose"
        raise Forbidden(f"slot {request.slot} holds a conversation of {who}")
    data = batch.context.save(slot.sequence)
    if data is None:
        raise EngineFailure(f"slot {request.slot} could not be read: llama.cpp refused, or memory is short")
    return len(slot.tokens), disk.keep(request.filename, SavedState(tuple(slot.tokens), data, slot.salt))


def _restore(batch: Batch, slot: Slot, request: SlotRequest, salt: str) -> tuple[int, int]:
    """Tokens and bytes read."""
    state, size = _disk(batch).kept(request.filename, salt)
    if len(state.tokens) >= batch.context.size:
        text = f"{request.filename} holds {len(state.tokens)} tokens; the context holds {batch.context.size}"
        raise InvalidRequest(f"{text}: raise context in models.toml", param="filename")
    batch.swapper.evict(slot)
    if not batch.swapper.restore(slot, state, state.data):
        if batch.busy:
            raise batch.no_room()
        raise InvalidRequest(f"llama.cpp does not take {request.filename} on this device", param="filename")
    return len(state.tokens), size


def _erase(batch: Batch, slot: Slot) -> int:
    """Tokens forgotten. States that the server has saved of the conversation go as well."""
    tokens = slot.cells
    batch.saved.forget(slot.reusable, slot.salt)
    batch.swapper.empty(slot)
    return tokens


def _disk(batch: Batch) -> Disk:
    if batch.saved.disk is None:
        raise NotSupported("this model keeps no conversations on disk: prefix_cache_disk_mb is 0", param="action")
    return batch.saved.disk
