"""The routes of llama.cpp's server."""

from __future__ import annotations

from edgeserve.api import sse
from edgeserve.api.entry import Entry
from edgeserve.api.line import answering
from edgeserve.api.llama_server import completion, infill, props, texts
from edgeserve.jobs import CHAT

LLAMA_SERVER = (
    Entry("GET", "/props", "Properties of a chat model", props.props, query=props.PropsQuery),
    Entry("POST", "/tokenize", "A text as tokens", answering(texts.tokenize, *CHAT), texts.Tokenize),
    Entry("POST", "/detokenize", "Tokens as text", answering(texts.detokenize, *CHAT), texts.Detokenize),
    Entry(
        "POST",
        "/completion",
        "A raw text continued, as llama-server does",
        answering(completion.completion, *CHAT),
        completion.Completing,
        also=(sse.MEDIA_TYPE,),
    ),
    Entry(
        "POST",
        "/infill",
        "The text between two others, as llama-server does",
        answering(infill.infill, *CHAT),
        infill.Infilling,
        also=(sse.MEDIA_TYPE,),
    ),
    Entry(
        "POST",
        "/apply-template",
        "The prompt of a conversation",
        answering(texts.apply_template, *CHAT),
        texts.ApplyTemplate,
    ),
    Entry(
        "POST",
        "/v1/chat/completions/input_tokens",
        "Tokens of a conversation's prompt",
        answering(texts.input_tokens, *CHAT),
        texts.ApplyTemplate,
    ),
)
