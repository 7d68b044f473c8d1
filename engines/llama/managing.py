"""Slots saved, restored and erased by hand, as in llama.cpp's own server (``/slots``)."""

from __future__ import annotations

import functools
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

from edgeserve.engine import Cancel
from edgeserve.engines.llama.adapters import Active
from edgeserve.engines.llama.background import Background
from edgeserve.engines.llama.cache import SavedState
from edgeserve.engines.llama.state_index import client_of, scope_of
from edgeserve.engines.llama.state_memory import prepare
from edgeserve.errors import Busy, Cancelled, EngineFailure, Forbidden, InvalidRequest, MemoryPressure, NotSupported
from edgeserve.messages import SlotEvent, SlotRequest
from edgeserve.system.headroom import LARGE

if TYPE_CHECKING:
    from edgeserve.engines.llama.batch import Batch
    from edgeserve.engines.llama.disk import Disk
    from edgeserve.engines.llama.slot import Slot

RETRY_SECONDS = 5.0
"""Seconds after which a client may ask again for a state that memory has no room for."""


def manage(
    batch: Batch, request: SlotRequest, adapters: Active, background: Background, cancel: Cancel
) -> Generator[SlotEvent | None, None, None]:
    """Do what is asked of a slot, between two steps. Raises the errors of ``SlotKeeper.manage_slot``, and Cancelled.

    Yields None for each step to take while ``background`` reads or writes the file. ``adapters``: those that belong to
    the model. Conversations with others are neither saved nor restored.
    """
    started = time.perf_counter()
    if request.action == "erase":
        tokens, size = _erase(batch, _free(batch, request.slot), request), 0
    else:
        yield from _await_turn(batch, background, cancel)
        batch.swapper.copying = True
        try:
            tokens, size = yield from _copy(batch, request, adapters, background)
        finally:
            batch.swapper.copying = False
    yield SlotEvent(tokens, size, time.perf_counter() - started)


def _await_turn(batch: Batch, background: Background, cancel: Cancel) -> Generator[None, None, None]:
    """Yield for each step to take until no other state is copied by hand, and no answer has time of its own.

    A state may be as large as the context, and no book counts the copy. Raises Cancelled for a client that has gone.
    """
    while not cancel.is_set() and (batch.swapper.copying or batch.pieces.owes(batch.slots)):
        if batch.swapper.copying:
            yield from background.run(nothing)  # behind the file that its thread reads or writes now
        yield None  # the one that copies continues
    if cancel.is_set():
        raise Cancelled("the request was cancelled before its turn came")


def nothing() -> None:
    """Work that only waits for its turn."""


def _copy(
    batch: Batch, request: SlotRequest, adapters: Active, background: Background
) -> Generator[None, None, tuple[int, int]]:
    """Save or restore; returns tokens and bytes."""
    slot = _free(batch, request.slot)
    salt = batch.context.model.adapters.salted(request.salt, adapters)
    if request.action == "save":
        return (yield from _save(batch, slot, request, salt, background))
    tokens, size = yield from _restore(batch, request, salt, background)
    batch.occupy(batch.numbers.slots[request.slot], salt, adapters)
    return tokens, size


def check_slot(number: int, count: int, param: str) -> None:
    """Raises InvalidRequest for the number of no slot. ``param``: the field that errors name."""
    if not 0 <= number < count:
        raise InvalidRequest(f"there are slots 0 to {count - 1}, and no slot {number}", param=param)


def _free(batch: Batch, number: int) -> Slot:
    """The slot of this number. Raises InvalidRequest, and Busy while it makes an answer."""
    check_slot(number, batch.numbers.count, "slot")
    if (slot := batch.numbers.slots[number]).busy:
        raise Busy(f"slot {number} is making an answer; try again", retry_after=2)
    return slot


def _save(
    batch: Batch, slot: Slot, request: SlotRequest, salt: str, background: Background
) -> Generator[None, None, tuple[int, int]]:
    """Tokens and bytes written."""
    disk = _disk(batch)
    _check_saved(slot, request, salt)
    size, memory = batch.context.state_size(slot.sequence), None
    if size >= LARGE:
        memory = yield from background.run(functools.partial(prepare, size))
        slot = _free(batch, request.slot)  # an answer may have taken it meanwhile
        _check_saved(slot, request, salt)
    began = batch.drafts.clock()
    data = batch.context.save(slot.sequence, memory)
    batch.pieces.delay(batch.slots, batch.drafts.clock() - began)
    if data is None:
        raise EngineFailure(f"slot {request.slot} could not be read: llama.cpp refused, or memory is short")
    state = SavedState(tuple(slot.tokens), data, slot.salt)
    size = yield from background.run(functools.partial(disk.keep, request.filename, state))
    return len(state.tokens), size


def _check_saved(slot: Slot, request: SlotRequest, salt: str) -> None:
    """Raises InvalidRequest for a slot without a conversation to save, Forbidden for one of another client."""
    if not slot.cells:
        raise InvalidRequest(f"slot {request.slot} is empty", param="slot")
    if slot.opaque or not slot.tokens:
        raise InvalidRequest(f"slot {request.slot} holds pictures, and cannot be saved", param="slot")
    if scope_of(slot.salt) != scope_of(salt):
        who = "another client, key or prompt_cache_key, or one with adapters that requests choose"
        raise Forbidden(f"slot {request.slot} holds a conversation of {who}")


def _restore(
    batch: Batch, request: SlotRequest, salt: str, background: Background
) -> Generator[None, None, tuple[int, int]]:
    """Tokens and bytes read."""
    reading = functools.partial(_disk(batch).kept, request.filename, salt)
    try:
        state, size = yield from background.run(reading)
    except MemoryError as error:
        text = f"{request.filename} cannot be read now: {str(error) or 'memory is short'}; free memory, or try again"
        raise MemoryPressure(text, retry_after=RETRY_SECONDS) from error
    _free(batch, request.slot)  # an answer may have taken it meanwhile
    if len(state.tokens) >= batch.context.size:
        text = f"{request.filename} holds {len(state.tokens)} tokens; the context holds {batch.context.size}"
        raise InvalidRequest(f"{text}: raise context in models.toml", param="filename")
    # As for any prompt: nobody chooses whose conversation leaves the context.
    began = batch.drafts.clock()
    slot = batch.swapper.evict(batch.seats.free(salt))
    back = batch.swapper.restore(slot, state, state.data)
    batch.pieces.delay(batch.slots, batch.drafts.clock() - began)
    if not back:
        if batch.busy:
            raise batch.seats.no_room()
        raise InvalidRequest(f"llama.cpp does not take {request.filename} on this device", param="filename")
    batch.numbers.give(slot, request.slot)
    return len(state.tokens), size


def _erase(batch: Batch, slot: Slot, request: SlotRequest) -> int:
    """Tokens forgotten. States that the server has saved of the conversation go as well.

    A client erases its own conversations, under any key of its caches, and those that nobody has for himself.
    """
    if slot.cells and client_of(slot.salt) not in ("", client_of(request.salt)):
        raise Forbidden(f"slot {request.slot} holds a conversation of another client or key")
    tokens = slot.cells
    batch.saved.forget(slot.reusable, slot.salt)
    batch.swapper.empty(slot)
    return tokens


def _disk(batch: Batch) -> Disk:
    if batch.saved.disk is None:
        raise NotSupported("this model keeps no conversations on disk: prefix_cache_disk_mb is 0", param="action")
    return batch.saved.disk
