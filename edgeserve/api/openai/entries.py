"""The routes of OpenAI's dialect, and of its kin."""

from __future__ import annotations

from edgeserve.api import sse
from edgeserve.api.entry import Entry
from edgeserve.jobs import CHAT, VECTORS

OPENAI = (
    Entry("GET", "/v1/audio/voices", "Voices as Open WebUI lists them", "edgeserve.api.sound.voices:list_voices"),
    Entry("GET", "/v1/audio/models", "Models that speak", "edgeserve.api.sound.voices:list_models"),
    Entry(
        "POST",
        "/v1/chat/completions",
        "OpenAI chat",
        "edgeserve.api.openai.chat:chat",
        "ChatCompletion",
        jobs=CHAT,
        files=True,
        also=(sse.MEDIA_TYPE,),
    ),
    Entry(
        "POST",
        "/v1/completions",
        "OpenAI completions",
        "edgeserve.api.openai.completions:completions",
        "RawCompletion",
        jobs=CHAT,
        also=(sse.MEDIA_TYPE,),
    ),
    Entry(
        "POST",
        "/v1/embeddings",
        "Texts as vectors",
        "edgeserve.api.openai.embeddings:embeddings",
        "Embedding",
        jobs=VECTORS,
    ),
    Entry(
        "POST",
        "/v1/audio/transcriptions",
        "OpenAI transcription of a file",
        "edgeserve.api.openai.audio:transcriptions",
        "Transcription",
        jobs=("asr",),
        media="edgeserve.api.openai.audio:MEDIA_TYPES",
    ),
    Entry(
        "POST",
        "/v1/audio/translations",
        "OpenAI translation of speech into English",
        "edgeserve.api.openai.audio:translations",
        "Translation",
        jobs=("asr",),
        media="edgeserve.api.sound.transcripts:MEDIA_TYPES",
    ),
    Entry(
        "POST",
        "/v1/audio/speech",
        "OpenAI speech; mp3 unless the request names another format",
        "edgeserve.api.openai.speech:speech",
        "Speech",
        jobs=("tts",),
        media="edgeserve.api.openai.speech:MEDIA_TYPES",
    ),
)
