"""The frames that the serving process sends to one worker."""

from __future__ import annotations

import errno
import itertools
import logging
import threading
from collections.abc import Callable

from edgeserve.errors import Busy, EdgeserveError, EngineFailure
from edgeserve.hosts.dropped import Dropped
from edgeserve.hosts.watch import HANG, Watch
from edgeserve.processes import codec
from edgeserve.processes.frames import RETRY_SECONDS, Channel, Kind

log = logging.getLogger("edgeserve.process")

FAREWELL = 5.0
"""Seconds in which a worker that takes nothing more must have ended; then it is killed."""
ANSWERED = frozenset({Kind.CALL, Kind.PREPARE, Kind.RUN, Kind.STOP, Kind.DETECT})
"""Frames that the worker answers with DONE."""
FULL = frozenset({errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM})
"""Errors of a system that had no room for a frame: not even for its descriptors. The worker is well."""


class Sender:
    """Any thread. ``changed`` guards ``watch``, and is notified when the worker has ended.

    ``kill`` ends the worker for a reason; it never waits. ``ended``: the error of a worker that has ended, else None.
    """

    def __init__(
        self,
        channel: Channel,
        name: str,
        changed: threading.Condition,
        watch: Watch,
        kill: Callable[[str], None],
        ended: Callable[[], EdgeserveError | None],
    ) -> None:
        channel.limit_sending(HANG)
        self._channel = channel
        self._name = name
        self._changed = changed
        self._watch = watch
        self._kill = kill
        self._ended = ended
        self._numbers = itertools.count(1)
        self._dropped = Dropped()

    def number(self) -> int:
        """A number that no frame has had."""
        return next(self._numbers)

    def forget(self, number: int) -> None:
        """Let the next frame report to the worker that a prepared request is not wanted. Safe in a finaliser."""
        self._dropped.add(number)

    def send(self, kind: Kind, value: object, number: int) -> None:
        """Raises EngineFailure when the worker has gone or reads nothing, and Busy as ``Channel.send`` does."""
        writer = codec.Writer()
        head = writer.write(value)
        if kind in ANSWERED:
            with self._changed:
                self._watch.owe(number)
        try:
            for dropped in self._dropped.take():
                self._channel.send(Kind.FORGET, dropped, None)
            self._channel.send(kind, number, head, writer.body, writer.descriptors)
        except TimeoutError as error:
            self._kill(f"it has read nothing for {HANG:g} s")
            raise EngineFailure(f"{self._name} did not take a request for {HANG:g} s and was ended") from error
        except OSError as error:
            if error.errno in FULL and kind in ANSWERED:
                self._settle(number)
                text = f"the system has no room for a message to {self._name}: {error.strerror}; try again"
                raise Busy(text, retry_after=RETRY_SECONDS) from error
            raise self._gone() from None  # the process has gone, or goes: the link's thread finds out how
        except BaseException:  # nothing was sent, or the connection has ended
            self._settle(number)
            raise

    def _settle(self, number: int) -> None:
        with self._changed:
            self._watch.settle(number)

    def _gone(self) -> EdgeserveError:
        """The end of a worker that takes nothing more. One that has closed its ears alone is killed."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended() is not None, FAREWELL):
                self._kill("it takes no frames")
                self._changed.wait_for(lambda: self._ended() is not None, FAREWELL)
            return self._ended() or EngineFailure(f"{self._name} takes no requests, and its process does not end")

    def tell(self, kind: Kind, value: object, number: int) -> None:
        """As ``send``, for what no worker needs to know any more once it has gone."""
        try:
            self.send(kind, value, number)
        except EngineFailure as error:
            log.debug("%s was not told: %s", self._name, error.message)
