"""All live sessions, with limits on their number and on their idle time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator

from edgeserve.clients import Client
from edgeserve.errors import Busy, NotFound
from edgeserve.live.ear import Ear, Options
from edgeserve.live.pace import LoopTime
from edgeserve.live.session import Session
from edgeserve.memory.traffic import Traffic
from edgeserve.shares import Shares, has_share

log = logging.getLogger("edgeserve.live")

DEFAULT = "default"
"""Name of the session of a client that names none. The first push starts this session."""


class Sessions:
    """All open sessions. One event loop uses the object. ``clock`` counts seconds.

    Only its owner finds a named session, and only the same client its default session. At most ``limit`` sessions are
    open; one client has a share of them (``has_share``).
    """

    def __init__(
        self,
        ear: Ear,
        *,
        limit: int = 16,
        idle_seconds: float = 60.0,
        max_seconds: float = 7200.0,
        clock: Callable[[], float] = time.monotonic,
        traffic: Traffic | None = None,
    ) -> None:
        self.idle_seconds = idle_seconds
        self.loop_time = LoopTime()
        """Shared by all sessions at work on their sound, wherever it comes from."""
        self._ear = ear
        self._limit = limit
        self._max_seconds = max_seconds
        self._clock, self._traffic = clock, traffic
        self._open: dict[tuple[str, Client], Session] = {}
        self._clients: dict[Session, Client] = {}
        self._overheard: set[Session] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def start(self, options: Options, client: Client, name: str = "") -> Session:
        """Start a session. Raises Busy when all sessions, or all that one client may have, are open."""
        self.expire()
        shares = Shares(owner.groups for owner in self._clients.values())
        if has_share(self._limit, shares, client.groups):
            raise self._full(0 if len(shares) >= self._limit else shares.held_by_key(client.groups))
        name = name or f"live_{secrets.token_hex(16)}"
        session = Session(name, self._ear, options, self._max_seconds, self._speakers, self.loop_time, self._traffic)
        session.last_used = self._clock()
        self._open[_place(name, client)] = session
        self._clients[session] = client
        self._watch()
        return session

    def overhear(self, options: Options) -> Session:
        """A session that no client finds and that never expires: its owner ends it, and counts its sound.

        It takes no place of others.
        """
        session = Session("", self._ear, options, self._max_seconds, self._speakers, self.loop_time)
        self._overheard = {one for one in self._overheard if not one.closed} | {session}
        return session

    def _full(self, own: int) -> Busy:
        """``own``: sessions of the client's key, which are its share; 0 where all sessions are open."""
        whose, most = ("of yours ", "the limit for one client now") if own else ("", "the limit")
        count = own or len(self._open)
        open_ = (
            f"{count} live transcriptions {whose}are open" if count != 1 else f"one live transcription {whose}is open"
        )
        text = (
            f"{open_}, which is {most}: flush or delete one, wait for one to end after {self.idle_seconds:g} s without"
        )
        text += " use, or raise live_sessions in"
        return Busy(f"{text} models.toml", retry_after=max(1.0, self._next_end()))

    @contextlib.contextmanager
    def using(self, name: str, client: Client) -> Iterator[Session]:
        """The client's session of this name. It does not expire while it is in use.

        Raises NotFound, also for a session of another owner. Raises Busy where the default session cannot start.
        """
        self.expire()
        place = _place(name, client)
        if name == DEFAULT and place not in self._open:
            self.start(Options(), client, DEFAULT)
        if place not in self._open:
            text = f"there is no live transcription {name[:80]!r}: it was flushed or deleted, or not used for"
            text += f" {self.idle_seconds:g} s; start one with POST /v1/transcribe/stream"
            raise NotFound(text, param="session")
        session = self._open[place]
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            session.last_used = self._clock()

    def end(self, session: Session) -> None:
        """End a session. Idempotent."""
        self._open = {place: one for place, one in self._open.items() if one is not session}
        self._clients.pop(session, None)
        session.close()

    def expire(self) -> None:
        """End the sessions that were idle for too long."""
        for session in list(self._open.values()):
            if not session.users and self._clock() - session.last_used >= self.idle_seconds:
                log.info("live transcription %s ended: idle for %g s", session.name, self.idle_seconds)
                self.end(session)

    def close(self) -> None:
        """End all sessions."""
        for session in (*self._open.values(), *self._overheard):
            self.end(session)
        if self._timer is not None:
            self._timer.cancel()

    def _speakers(self) -> int:
        return sum(session.speaks for session in (*self._open.values(), *self._overheard))

    def _next_end(self) -> float:
        """Seconds until a session may have been idle for too long."""
        first = min((session.last_used for session in self._open.values() if not session.users), default=self._clock())
        return first + self.idle_seconds - self._clock()

    def _watch(self) -> None:
        """Call ``expire`` when it is due, as long as a session is open."""
        if self._timer is None and self._open:
            self._timer = asyncio.get_running_loop().call_later(max(0.05, self._next_end()), self._look)

    def _look(self) -> None:
        self._timer = None
        self.expire()
        self._watch()


def _place(name: str, client: Client) -> tuple[str, Client]:
    return name, client if name == DEFAULT else client.owner
