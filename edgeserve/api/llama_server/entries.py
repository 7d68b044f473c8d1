"""The routes of llama.cpp's server."""

from __future__ import annotations

from edgeserve.api import sse
from edgeserve.api.entry import Entry
from edgeserve.jobs import CHAT

LLAMA_SERVER = (
    Entry("GET", "/props", "Properties of a chat model", "edgeserve.api.llama_server.props:props", asked="PropsQuery"),
    Entry("POST", "/tokenize", "A text as tokens", "edgeserve.api.llama_server.texts:tokenize", "Tokenize", jobs=CHAT),
    Entry(
        "POST", "/detokenize", "Tokens as text", "edgeserve.api.llama_server.texts:detokenize", "Detokenize", jobs=CHAT
    ),
    Entry(
        "POST",
        "/completion",
        "A raw text continued, as llama-server does",
        "edgeserve.api.llama_server.completion:completion",
        "Completing",
        jobs=CHAT,
        also=(sse.MEDIA_TYPE,),
    ),
    Entry(
        "POST",
        "/infill",
        "The text between two others, as llama-server does",
        "edgeserve.api.llama_server.infill:infill",
        "Infilling",
        jobs=CHAT,
        also=(sse.MEDIA_TYPE,),
    ),
    Entry(
        "POST",
        "/apply-template",
        "The prompt of a conversation",
        "edgeserve.api.llama_server.texts:apply_template",
        "ApplyTemplate",
        jobs=CHAT,
    ),
    Entry(
        "POST",
        "/v1/chat/completions/input_tokens",
        "Tokens of a conversation's prompt",
        "edgeserve.api.llama_server.texts:input_tokens",
        "ApplyTemplate",
        jobs=CHAT,
    ),
)
