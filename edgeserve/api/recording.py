"""Files of sound of a request, looked at beside the event loop."""

from __future__ import annotations

from edgeserve.api.limits import Limits
from edgeserve.aside import Aside
from edgeserve.audio.clip import Clip, check_audio

CHECKS = Aside("checks of sound", threads=2)


async def checked_audio(data: bytes, limits: Limits, param: str = "audio") -> Clip:
    """As ``check_audio``. Raises Busy, too."""
    return await CHECKS.run(check_audio, data, limits.max_audio_seconds, param)
