"""The errors of a task name the client's field; without one they are the server's own."""

from __future__ import annotations

from support.cases import each

from edgeserve.errors import EdgeserveError, EngineFailure, TooLarge, UnsupportedMedia
from edgeserve.media.task import Bounds, Task

CLIENTS = Task("none:none", "decoder", "audio", Bounds(), "file", "send WAV")
PLAIN = Task("none:none", "decoder", "audio", Bounds(), "file")
OWN = Task("none:none", "encoder", "encoding mp3", Bounds())


@each(
    ("error", "kind", "message"),
    [
        (CLIENTS.too_large("takes too long"), TooLarge, "audio takes too long; send WAV"),
        (CLIENTS.failed("SIGSEGV"), UnsupportedMedia, "audio makes its decoder fail (SIGSEGV); send WAV"),
        (PLAIN.failed("SIGSEGV"), UnsupportedMedia, "audio makes its decoder fail (SIGSEGV)"),
        (OWN.too_large("takes too long"), EngineFailure, "encoding mp3 takes too long"),
        (OWN.failed("SIGSEGV"), EngineFailure, "encoding mp3 failed: its process ended early (SIGSEGV)"),
    ],
)
def test_errors(error: EdgeserveError, kind: type[EdgeserveError], message: str) -> None:
    assert (type(error), error.message) == (kind, message)
    assert error.param == (None if kind is EngineFailure else "file")
