"""The recording of a request, and the prompt that comes with it."""

from __future__ import annotations

from edgeserve.api.limits import Limits
from edgeserve.audio.clip import Clip, check_audio
from edgeserve.residency.aside import Aside

CHECKS = Aside("checks of sound", threads=2)
FORMATS = "WAV, MP3, M4A, FLAC, Ogg, Opus, WebM, AIFF, CAF, AMR, or a video that holds sound"
PROMPT_CHARS = 16_384
"""Characters of a prompt that reach the engine. Models read the last 223 tokens.

Whisper's tokenizer lets nobody else run meanwhile: 1.2 s for a prompt of 1 MB, 20 ms for this many characters.
"""


async def checked_audio(data: bytes, limits: Limits, param: str = "audio") -> Clip:
    """The recording. Raises as ``check_audio`` does, and Busy."""
    return await CHECKS.run(check_audio, data, limits.max_audio_seconds, param)


def shortened(prompt: str) -> str | None:
    """The end of a prompt; None for none."""
    return prompt[-PROMPT_CHARS:] or None
