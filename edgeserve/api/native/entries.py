"""The routes of the server's own dialect."""

from __future__ import annotations

from edgeserve.api import sse
from edgeserve.api.entry import Entry
from edgeserve.jobs import CHAT

NATIVE = (
    Entry("POST", "/v1/chat", "Answer a prompt or conversation", "edgeserve.api.native.chat:chat", "Chat", jobs=CHAT),
    Entry(
        "POST",
        "/v1/chat/stream",
        "Answer a prompt or conversation, token by token",
        "edgeserve.api.native.chat:chat_stream",
        "Chat",
        sse.MEDIA_TYPE,
        jobs=CHAT,
    ),
    Entry("POST", "/v1/chat/soap", "SOAP note of a consultation", "edgeserve.api.native.chat:soap", "Soap", jobs=CHAT),
    Entry(
        "POST", "/v1/chat/summarize", "Summary of a text", "edgeserve.api.native.chat:summarize", "Summarize", jobs=CHAT
    ),
    Entry(
        "POST",
        "/v1/vision/analyze",
        "Describe an image",
        "edgeserve.api.native.vision:analyze",
        "Image",
        jobs=("vision",),
    ),
    Entry(
        "POST",
        "/v1/vision/ocr",
        "Read the text in an image",
        "edgeserve.api.native.vision:ocr",
        "Image",
        jobs=("vision",),
    ),
    Entry(
        "POST",
        "/v1/transcribe/file",
        "Transcribe a file",
        "edgeserve.api.native.sound:transcribe",
        "Recording",
        jobs=("asr",),
    ),
    Entry(
        "POST",
        "/v1/tts/synthesize",
        "Say a text",
        "edgeserve.api.native.sound:synthesize",
        "Speak",
        "audio/wav",
        jobs=("tts",),
    ),
    Entry("GET", "/v1/tts/voices", "Voices, the default first", "edgeserve.api.sound.voices:voices"),
)
