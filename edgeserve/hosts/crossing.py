"""A request on its way from the serving process to a worker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from edgeserve.errors import UnsupportedMedia
from edgeserve.messages import DiarizeRequest, Request, TranscribeRequest
from edgeserve.processes import codec


@contextlib.contextmanager
def sendable(request: Request) -> Iterator[Request]:
    """The request as it crosses the border. A child decodes a sound file meanwhile, and the worker reads it."""
    if not isinstance(request, TranscribeRequest | DiarizeRequest):
        yield request
        return
    from edgeserve.audio.apart import SharedClip
    from edgeserve.audio.piped import Piped

    clip = request.audio
    if not isinstance(clip, SharedClip):
        yield request
        return
    with clip.decode() as decoding:
        try:
            yield replace(
                request, audio=Piped(codec.Passed(decoding.descriptor), clip.seconds, clip.param, clip.max_seconds)
            )
        except UnsupportedMedia:  # the worker does not know why the samples ended
            decoding.check_end()
            raise
