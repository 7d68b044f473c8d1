"""Encoders of answers in one child, which lives while there are any.

The process takes 4 MB, and an encoder in it less than 1 MB for most formats. With a process for each, 16 answers that
nobody reads kept 120 MB.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable
from itertools import count

from edgeserve import clients
from edgeserve.audio.encode import FORMS
from edgeserve.clients import Groups
from edgeserve.errors import Busy, Cancelled, EdgeserveError
from edgeserve.media.children import Children
from edgeserve.media.helper import Helper
from edgeserve.media.task import Bounds, Task
from edgeserve.processes.closing import Closing
from edgeserve.processes.frames import Kind
from edgeserve.shares import Shares, half, has_share
from edgeserve.units import MB

PLACES = 16
"""Most encoders at once. One whose client reads slowly stays, so that nobody may have all."""
SHARE = 16
"""On a small machine they share one such part of its memory, so that large ones take several places."""
TASK = Task("edgeserve.audio.child:encode", "encoders", "encoding", Bounds(memory=512 * MB, shared=True))


class _Shared:
    """The child. ``turn``: held by the answer that has asked it. ``users``: encoders in it that are not closed."""

    def __init__(self, helper: Helper) -> None:
        self.helper, self.turn, self.users = helper, threading.Lock(), 0


class Encoders:
    """Any thread may use it. ``places`` as ``PLACES``; ``machine``: bytes of its memory."""

    def __init__(self, children: Children, machine: int, places: int = PLACES) -> None:
        self._children, self._places = children, places
        self._place = machine // SHARE / places
        """Bytes of one place."""
        self._shares, self._numbers = Shares(), count(1)
        self._child: _Shared | None = None
        self._lock, self._starting = threading.Lock(), threading.Lock()

    def encoder(self, form: str, rate: int) -> EncoderApart:
        """As ``SoundFiles.encoder``."""
        groups, places = clients.current.get().groups, self._places_of(form)
        self._take(groups, places)
        try:
            child = self._join()
        except BaseException:
            self._give_back(groups, places)
            raise
        ended = functools.partial(self._leave, child, groups, places)
        return EncoderApart(child, next(self._numbers), {"form": form, "rate": rate}, ended)

    def _places_of(self, form: str) -> int:
        """Places that an encoder takes: no more than one client may have."""
        return min(half(self._places), math.ceil(FORMS[form].memory / self._place))

    def _take(self, groups: Groups, places: int) -> None:
        """Count an encoder of the client. Raises Busy. A large one may end beyond the limit."""
        with self._lock:
            if has_share(self._places, self._shares, groups):
                raise self._busy(groups)
            for _ in range(places):
                self._shares.add(groups)

    def _busy(self, groups: Groups) -> Busy:
        text = f"all {self._places} places of encoders are taken"
        if len(self._shares) < self._places:
            held = self._shares.held_by_key(groups)
            text = f"your answers hold {held} of {self._places} places of encoders, and the others are for others"
        text += " (on a small machine, a FLAC holds several); ask for wav, or try again"
        return Busy(text, retry_after=5)

    def _give_back(self, groups: Groups, places: int) -> None:
        with self._lock:
            for _ in range(places):
                self._shares.remove(groups)

    def _join(self) -> _Shared:
        """The child with one more user: the one that runs, or a new one. Raises as ``Children.start`` does."""
        with self._starting:
            with self._lock:
                if self._child is not None and self._child.helper.runs:
                    self._child.users += 1
                    return self._child
            child = _Shared(self._children.start(TASK))
            with self._lock:
                child.users, self._child = 1, child
                return child

    def _leave(self, child: _Shared, groups: Groups, places: int) -> None:
        """An encoder is closed. The child ends with its last one."""
        self._give_back(groups, places)
        with self._lock:
            child.users -= 1
            if child.users:
                return
            self._child = None if self._child is child else self._child
        child.helper.close()


class EncoderApart(Closing):
    """An encoder in the child. ``head`` names its form and rate; ``ended`` is called once, at its end."""

    def __init__(self, child: _Shared, number: int, head: object, ended: Callable[[], None]) -> None:
        self._child, self._number, self._head, self._ended = child, number, head, ended
        self._closed = False

    def add(self, pcm: bytes) -> bytes:
        return self._asked(Kind.RUN, pcm)

    def end(self) -> bytes:
        last = self._asked(Kind.STOP)
        self.close()
        return last

    def _asked(self, kind: Kind, pcm: bytes = b"") -> bytes:
        helper = self._child.helper
        with self._child.turn:
            if self._closed:
                raise Cancelled("the answer has ended")
            helper.send(self._head, pcm, kind=kind, number=self._number)
            frame = helper.receive()
            if frame.number != self._number:  # another answer's: no client may hear it
                raise helper.nonsense()
        if frame.head is not None:
            raise helper.error(frame.head)
        return bytes(frame.body)

    def close(self) -> None:
        """Drop the encoder. Waits for the piece that another thread has encoded."""
        with self._child.turn:
            if self._closed:
                return
            self._closed = True
            with contextlib.suppress(EdgeserveError):  # a child that has ended holds it no more
                self._child.helper.send(None, kind=Kind.CANCEL, number=self._number)
        self._ended()
