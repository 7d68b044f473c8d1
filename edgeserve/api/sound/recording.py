"""Sound of a request, looked at beside the event loop, and the prompt that comes with it."""

from __future__ import annotations

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.audio.clip import Clip, check_audio
from edgeserve.residency.aside import Aside

CHECKS = Aside("checks of sound", threads=2)
PROMPT_CHARS = 16_384
"""Models read the last 223 tokens of a prompt. Whisper's tokenizer lets nobody else run meanwhile, which took 1.2 s and
170 MB for a prompt of 1 MB, and takes 20 ms for this many characters."""


async def checked_audio(data: bytes, limits: Limits, param: str = "audio") -> Clip:
    """As ``check_audio``. Raises Busy, too."""
    return await CHECKS.run(check_audio, data, limits.max_audio_seconds, param)


def read_prompt(fields: Fields) -> str | None:
    """The end of it."""
    prompt = fields.text("prompt")
    return prompt and prompt[-PROMPT_CHARS:]
