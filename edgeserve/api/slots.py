"""The slots of a chat model: listed, and saved, restored and erased by hand, in the shapes of llama.cpp's server."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import cache_salt, models
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.json_body import check_media, read_bytes, read_record
from edgeserve.api.limits import Limits, limits_of
from edgeserve.api.line import Call
from edgeserve.api.schema import Field, Strict
from edgeserve.api.values import Enum, Text
from edgeserve.engine import Rung
from edgeserve.errors import Busy, EdgeserveError, InvalidRequest, NotFound
from edgeserve.jobs import CHAT
from edgeserve.messages import Event, SlotEvent, SlotRequest
from edgeserve.residency.pool import Pool
from edgeserve.slots import SlotAction, SlotState

ACTIONS: dict[str, SlotAction] = {"save": "save", "restore": "restore", "erase": "erase"}
FILENAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""Names that are a file in every file system, in no other folder, and not hidden."""
MAX_BODY = 64 << 10


class Filename(Field[str]):
    """The name of a saved slot; empty where it is left out."""

    def __init__(self) -> None:
        super().__init__("letters, digits, dots, dashes and underscores; required but for erase", "")

    def read(self, fields: Fields, limits: Limits) -> str:
        name = fields.text(self.name)
        if not FILENAME.fullmatch(name):
            text = "must be 1 to 100 letters, digits, dots, dashes and underscores, with no dot in front"
            raise fields.error(self.name, text)
        return name

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{FILENAME.pattern}$"}


class SlotsQuery(Strict):
    """The query of GET /slots."""

    model = Text("a chat model; left out: the default", limit=NAME_CHARS)
    fail_on_no_slot = Text("not empty: 503 while all slots are busy", limit=NAME_CHARS)


class ActionQuery(Strict):
    """The query of POST /slots/{slot}."""

    action = Enum("what to do", tuple(ACTIONS), required=True)
    model = Text("a chat model; left out: the default", limit=NAME_CHARS)


class SlotFile(Strict):
    """The body of POST /slots/{slot}."""

    filename = Filename()
    prompt_cache_key = Text("of the conversation's requests", limit=cache_salt.LIMIT)

    def name(self, action: SlotAction) -> str:
        """The name; empty for an action that takes none. Raises InvalidRequest."""
        if action != "erase" and not self.filename:
            raise self.error("filename", f"is required: the letters and digits of a name for what you {action}")
        return "" if action == "erase" else self.filename


async def list_slots(request: Request) -> Response:
    """All slots of a model. Never loads it."""
    pool: Pool = request.app.state.pool
    asked = SlotsQuery(Fields(dict(request.query_params)), limits_of(request))
    model = models.choose(pool, asked.model, CHAT, stand_in=False)
    pool.rung(model)  # raises NotConfigured
    host = pool.gates[model].host
    states = host.slot_states() or (SlotState(),) * host.slots
    if asked.fail_on_no_slot and all(one.busy for one in states):
        raise Busy(f"all slots of {host.spec.name} are busy ({len(states)})", retry_after=2)
    size = host.context_tokens
    return JSONResponse(
        [
            {
                "id": number,
                "model": host.spec.name,
                "n_ctx": size,
                "n_tokens": one.tokens,
                "is_processing": one.busy,
                "speculative": one.drafted > 0,
                "n_draft": one.drafted,
                "n_draft_accepted": one.accepted,
            }
            for number, one in enumerate(states)
        ]
    )


async def parse(request: Request) -> Call:
    """A slot request waits for its turn as any request to the engine does. The answers under way continue."""
    pool: Pool = request.app.state.pool
    limits = limits_of(request)
    query = ActionQuery(Fields(dict(request.query_params)), limits)
    data = await read_bytes(request, MAX_BODY, "a slot takes only filename and prompt_cache_key")
    if data:
        check_media(request)
    body = await read_record(data, SlotFile, limits) if data else SlotFile(Fields({}), limits)
    action, model = ACTIONS[query.action], models.choose(pool, query.model, CHAT, stand_in=False)
    slot = _number(request.path_params["slot"])
    if action != "restore" and pool.rung(model) is not Rung.HOT:
        raise InvalidRequest(f"slot {slot} is empty: {models.name(pool, model)} is not loaded", param="slot")
    name = body.name(action)
    erasing = action == "erase"  # the conversation may have any key; the salt without one names no client
    salt = cache_salt.client(request) if erasing else cache_salt.salt(request, body.prompt_cache_key)
    asked = SlotRequest(action, slot, name, salt)
    return Call(model, (asked,), Told(asked))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise NotFound(f"there is no slot {text[:20]!r}; slots are numbered from 0", param="slot")
    return int(text)


class Told:
    """Renders the end of a slot request."""

    stream = False
    media_type = "application/json"

    def __init__(self, asked: SlotRequest) -> None:
        self._asked = asked
        self._event = SlotEvent(0)

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, SlotEvent):
            self._event = event
        return b""

    def end(self) -> bytes:
        asked, event = self._asked, self._event
        told: dict[str, Any] = {"id_slot": asked.slot}
        if asked.action == "erase":
            return json.dumps(told | {"n_erased": event.tokens}).encode()
        done, bytes_ = ("n_saved", "n_written") if asked.action == "save" else ("n_restored", "n_read")
        told |= {"filename": asked.filename, done: event.tokens, bytes_: event.size}
        return json.dumps(told | {"timings": {f"{asked.action}_ms": round(1000 * event.seconds, 3)}}).encode()

    def fail(self, error: EdgeserveError) -> bytes:
        return b""
