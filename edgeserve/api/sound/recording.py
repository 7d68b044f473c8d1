"""The recording of a request, and the prompt that comes with it."""

from __future__ import annotations

from starlette.requests import Request

from edgeserve.api.limits import limits_of
from edgeserve.api.presence import leashed
from edgeserve.audio.files import SoundFiles
from edgeserve.residency.aside import Aside
from edgeserve.sound import Audio

CHECKS = Aside("checks of sound", threads=2)
FORMATS = "WAV, MP3, M4A, FLAC, Ogg, Opus, WebM, AIFF, CAF, AMR, or a video that holds sound"
TYPES = ("audio/*", "video/*")
PROMPT_CHARS = 16_384
"""Characters of a prompt that reach the engine. Models read the last 223 tokens.

Whisper's tokenizer lets nobody else run meanwhile: 1.2 s for a prompt of 1 MB, 20 ms for this many characters.
"""


def sound_files(request: Request) -> SoundFiles:
    """The server's reader and writer of sound files."""
    files: SoundFiles = request.app.state.sound_files
    return files


def expect_sound(request: Request) -> None:
    """Prepare the check of a file while the body arrives. Raises Busy and EngineFailure."""
    sound_files(request).prepare()


async def checked_audio(request: Request, data: bytes, param: str = "audio") -> Audio:
    """The recording in a body that was read. Raises as ``SoundFiles.check`` does.

    A client that leaves ends the check.
    """
    request.app.state.pool.ahead.coming(("asr",))
    most, check = limits_of(request).max_audio_seconds, sound_files(request).check
    return await leashed(request.receive, CHECKS, lambda leash: check(data, most, param, leash))


def shortened(prompt: str) -> str | None:
    """The end of a prompt; None for none."""
    return prompt[-PROMPT_CHARS:] or None
