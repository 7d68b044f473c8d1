"""The work of one short-lived child, and the bounds on it."""

from __future__ import annotations

from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError, EngineFailure, MemoryPressure, TooLarge, UnsupportedMedia
from edgeserve.units import GB, MB

LEAST, SHARE = 48 * MB, 32
"""Bytes that a child may take beside its file on the smallest machine, and its share of a larger one's memory."""
PATIENCE_SECONDS = 60.0
"""Time in which a child must say something. A piece of sound takes a second on a slow machine."""
RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on a child.

    - ``memory``: bytes of addresses beyond those that it has at its start
    - ``cpu``: seconds of processor time, 1 or more; None: no bound
    - ``patience``: seconds without a frame, after which the server kills the child
    - ``shared``: it serves several requests, so that it goes neither behind all other processes nor first of them
    """

    memory: int = GB
    cpu: int | None = None
    patience: float = PATIENCE_SECONDS
    shared: bool = False


def most(bound: int, machine: int, file: int) -> int:
    """Bytes that a child may take: ``bound``, and less on a small machine. ``file``: bytes of its input."""
    return min(bound, max(LEAST, machine // SHARE) + file)


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one child.

    - ``entry``: "module:function", as in ``Launcher.launch``
    - ``name``: shows in ps and in the log
    - ``subject``: begins the text of an error: the field of the request, or the work on an answer
    - ``param``: the field of the request that errors name; None: the input is the server's own, so that no error of
      the child is the client's
    - ``advice``: ends the text of an error
    """

    entry: str
    name: str
    subject: str
    bounds: Bounds
    param: str | None = None
    advice: str = ""

    def too_large(self, why: str) -> EdgeserveError:
        """The error for input that takes more than the bounds allow; ``why`` begins with a verb."""
        return self._error(TooLarge, why)

    def killed(self) -> EdgeserveError:
        """The error for a child that the system killed within its bounds: no input is to blame for that."""
        text = f"the {self.name} was killed by the system, most likely because memory ran out"
        return MemoryPressure(f"{text}; free memory, or try again", retry_after=RETRY_SECONDS)

    def failed(self, how: str) -> EdgeserveError:
        """The error for input at which the child failed; ``how`` it ended."""
        if self.param is None:
            return self._error(EngineFailure, f"failed: its process ended early ({how})")
        return self._error(UnsupportedMedia, f"makes its decoder fail ({how})")

    def _error(self, kind: type[EdgeserveError], why: str) -> EdgeserveError:
        if self.param is None:
            return EngineFailure(f"{self.subject} {why}")
        text = f"{self.subject} {why}"
        return kind(f"{text}; {self.advice}" if self.advice else text, param=self.param)
