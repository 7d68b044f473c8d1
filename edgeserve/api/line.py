"""The straight line of every request to an engine: parse → lease → first event → render → release.

A dialect gives a ``parse``, which turns an HTTP request into a ``Call``. A call names the engine, the requests that run
on one lease, and the renderer that folds their events.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edgeserve import messages
from edgeserve.api import notes
from edgeserve.api.auth import client_of
from edgeserve.api.presence import hang_up, watching
from edgeserve.api.rendering import Steps
from edgeserve.dataclass import dataclass
from edgeserve.errors import Cancelled, EdgeserveError, InvalidRequest
from edgeserve.jobs import Job
from edgeserve.residency.lease import Lease
from edgeserve.residency.mailbox import Kept
from edgeserve.residency.pool import Pool
from edgeserve.residency.weight import weigh

log = logging.getLogger("edgeserve.api")

PART_SECONDS = 0.5
"""Seconds of sound that a computing renderer encodes in one call: some milliseconds of work."""
SENT_BYTES = 64 << 10
"""Bytes of a whole answer in one message to the connection."""
PING_SECONDS = 5.0
"""Seconds without an event after which the stream reports that the answer is under way."""
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Renderer(Protocol):
    """Folds events into bytes. A client gets the bytes of a ``stream`` as they come, else all at the end."""

    stream: bool
    media_type: str

    def feed(self, index: int, event: messages.Event) -> bytes | Iterator[bytes]:
        """The bytes that an event of request number ``index`` adds, possibly none; or their parts."""
        ...

    def end(self) -> bytes | Iterator[bytes]:
        """The last bytes, or their parts; for a whole answer, all bytes."""
        ...

    def fail(self, error: EdgeserveError) -> bytes | None:
        """The error as a stream that has begun writes it; None where a stream has no place for words and is cut."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed request to an engine.

    - ``model``: id of the model that answers
    - ``keep_alive``: seconds for which the engine keeps its memory afterwards; None: as configured
    - ``apart``: run the requests one after the other, since llama.cpp may round otherwise in a batch
    - ``threaded``: run the renderer on a thread, because it computes
    - ``keeps``: the renderer of a stream keeps its answer until the end, so that its bytes count
    - ``close``: called once after the renderer's last bytes, also after a failure
    - ``begun``: called on the host's thread as the first request has its turn on a hot engine
    - ``ping``: bytes that a stream sends whenever nothing else came for ``PING_SECONDS``
    - ``names``: the dialect's names of fields of the requests, for errors that an engine raises about them
    """

    model: str
    requests: Sequence[messages.Request]
    renderer: Renderer
    keep_alive: float | None = None
    apart: bool = False
    threaded: bool = False
    keeps: bool = False
    close: Callable[[], None] = lambda: None
    begun: Callable[[], None] = lambda: None
    names: Mapping[str, str] = field(default_factory=dict)
    ping: bytes = b""


Parse = Callable[[Request], Awaitable[Call]]
Events = AsyncGenerator[tuple[int, messages.Event], None]


def answering(parse: Parse, *jobs: Job) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a route. A model of ``jobs`` answers it, most likely of the first that is configured."""

    async def endpoint(request: Request) -> Response:
        pool: Pool = request.app.state.pool
        pool.prefetches.expect(jobs)
        call = await parse(request)
        pool.prefetches.expect_model(call.model)
        lease = await pool.lease(call.model, call.keep_alive, call.begun)
        kept = Kept(pool.deliveries, client_of(request.scope))
        try:
            async with watching(request.receive, lease.release):  # which cancels its work
                events = lease.run_all(call.requests, apart=call.apart)
                first = await anext(events, None)
                while first is not None and isinstance(first[1], messages.LoosenedEvent):
                    notes.loosened(request, first[1].keywords)
                    first = await anext(events, None)
                if first is None:
                    raise InvalidRequest(f"the request holds nothing that {call.model} could answer")
                folded = _folded(call, first, events, kept if call.keeps or not call.renderer.stream else None)
                begun = await anext(folded)
                if call.renderer.stream:
                    return _Stream(call.renderer, begun, folded, lease, call.ping, kept)
                body = [begun, *[part async for part in folded]]
        except BaseException as error:
            kept.release()
            await lease.release()
            if isinstance(error, EdgeserveError):
                error.param = call.names.get(error.param or "", error.param)
            raise
        await lease.release()
        return Whole(body, call.renderer.media_type, kept)

    return endpoint


async def _folded(
    call: Call, first: tuple[int, messages.Event], events: Events, kept: Kept | None
) -> AsyncGenerator[bytes, None]:
    """The renderer's bytes for each event and for the end.

    ``kept`` counts the bytes of an answer that is kept: those of its events. Of a whole answer, the renderer's bytes
    count where they are more: numbers as text are, and texts of the request that come back.

    Each token passes here, so that this loop makes no generator and counts nothing for it that nobody needs.
    """
    renderer, steps, counted, all_events = call.renderer, Steps(threaded=call.threaded), 0, 0
    grows = kept is not None and not renderer.stream
    try:
        async with contextlib.aclosing(events):
            whole: tuple[int, messages.Event] | None = first
            while whole is not None:
                if not isinstance(whole[1], messages.LoosenedEvent):  # of a further request: the first one reported it
                    if kept is not None:
                        counted = weigh(whole[1])
                        kept.add(counted)
                        all_events += counted
                    for pair in _cut(whole) if call.threaded else (whole,):
                        part, more = await steps.begin(renderer.feed, *pair)
                        while part is not None:
                            if kept is not None and grows:
                                kept.add(max(0, len(part) - counted))
                                counted = max(0, counted - len(part))
                            yield part
                            part = None if more is None else await steps.next(more)
                whole = await anext(events, None)
            part, more = await steps.begin(renderer.end)
            while part is not None:
                if kept is not None and grows:
                    kept.add(max(0, len(part) - all_events))
                    all_events = max(0, all_events - len(part))
                yield part
                part = None if more is None else await steps.next(more)
    finally:
        await steps.close(call.close)


def _cut(pair: tuple[int, messages.Event]) -> Iterator[tuple[int, messages.Event]]:
    """The event in parts, so that the beginning of a sentence does not wait until the whole sentence is encoded."""
    number, event = pair
    if isinstance(event, messages.AudioEvent):
        yield from ((number, part) for part in event.parts(PART_SECONDS))
    else:
        yield pair


class Whole(Response):
    """A whole answer in parts. Its bytes, which ``kept`` counts, count until the client has taken them."""

    def __init__(self, parts: Sequence[bytes], media_type: str, kept: Kept) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers({"content-length": str(sum(map(len, parts)))})
        self._parts = parts
        self._kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            # In pieces: the server waits for a slow reader before the next one, but takes any size at once.
            last = b""
            for piece in _pieces(self._parts):
                if last:
                    await send({"type": "http.response.body", "body": last, "more_body": True})
                last = piece
            await send({"type": "http.response.body", "body": last})
        finally:
            self._kept.release()


def _pieces(parts: Sequence[bytes]) -> Iterator[bytes]:
    """The bytes of all parts in pieces of at most ``SENT_BYTES``, without a copy of them all."""
    held = bytearray()
    for part in parts:
        for start in range(0, len(part), SENT_BYTES):
            piece = part[start : start + SENT_BYTES]
            if len(held) + len(piece) > SENT_BYTES:
                yield bytes(held)
                held.clear()
            held += piece
    yield bytes(held)


class _Stream(Response):
    """A streamed answer. It owns the lease from here on."""

    def __init__(
        self,
        renderer: Renderer,
        begun: bytes,
        folded: AsyncGenerator[bytes, None],
        lease: Lease,
        ping: bytes,
        kept: Kept,
    ) -> None:
        self.status_code = 200
        self.media_type = renderer.media_type
        self.background = None
        self.init_headers(STREAM_HEADERS)
        del self.headers["content-length"]
        self._renderer, self._begun, self._folded, self._lease, self._ping = renderer, begun, folded, lease, ping
        self._kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with watching(receive, self._lease.release):
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                async for chunk in self._chunks():
                    if chunk is None:
                        hang_up(scope)
                        return
                    small = (chunk,) if chunk else ()
                    for piece in _pieces([chunk]) if len(chunk) > SENT_BYTES else small:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._kept.release()
            await self._lease.release()  # first, and at once: the end of the parts may fail
            await self._folded.aclose()

    async def _chunks(self) -> AsyncIterator[bytes | None]:
        try:
            yield self._begun
            parts = pinged(self._folded, self._ping, PING_SECONDS) if self._ping else self._folded
            async with contextlib.aclosing(parts):
                async for part in parts:
                    yield part
        except Cancelled:
            return  # the client has gone
        except EdgeserveError as error:
            log.warning("the answer was cut short: %s", error.message)
            yield self._renderer.fail(error)


async def pinged(parts: AsyncGenerator[bytes, None], ping: bytes, seconds: float) -> AsyncGenerator[bytes, None]:
    """The parts, and ``ping`` whenever none came for so many seconds."""

    async def following() -> bytes | None:
        return await anext(parts, None)

    while True:
        step = asyncio.ensure_future(following())
        try:
            while not (await asyncio.wait([step], timeout=seconds))[0]:
                yield ping
        finally:
            if not step.done():
                step.cancel()
                await asyncio.wait([step])
        part = step.result()
        if part is None:
            return
        yield part
