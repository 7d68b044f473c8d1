"""An example of the body of each request."""

from __future__ import annotations

from typing import Any

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360"
    "00000002000148afa4710000000049454e44ae426082"
)
"""A picture of one pixel."""
TALK = [{"role": "user", "content": "hello"}]
BODIES: dict[str, dict[str, Any]] = {
    "Chat": {"prompt": "hello"},
    "Soap": {"transcript": "hello"},
    "Summarize": {"text": "hello"},
    "Image": {},
    "Recording": {},
    "Live": {},
    "Speak": {"text": "hello"},
    "ChatCompletion": {"messages": TALK},
    "RawCompletion": {"prompt": "hello"},
    "Embedding": {"input": "hello"},
    "Rerank": {"query": "hello", "documents": ["hello"]},
    "Score": {"text_1": "hello", "text_2": "hello"},
    "Transcription": {},
    "Translation": {},
    "Speech": {"input": "hello"},
    "Preload": {"engines": ["asr"]},
    "PullOrder": {"model": "hibari"},
    "Load": {"model": "asr"},
    "Unload": {"model": "asr"},
    "SettingsPatch": {},
    "RouterModel": {"model": "asr"},
    "SlotFile": {"filename": "a.bin"},
    "ResponseRequest": {"input": "hello"},
    "ResponseTokens": {"input": "hello"},
    "AnthropicMessages": {"messages": TALK, "max_tokens": 8},
    "AnthropicCount": {"messages": TALK},
    "Completing": {"prompt": "hello"},
    "Infilling": {"input_prefix": "hello", "input_suffix": "world"},
    "Tokenize": {},
    "Detokenize": {"tokens": [104]},
    "ApplyTemplate": {"messages": TALK},
    "OllamaChat": {"messages": TALK},
    "OllamaGenerate": {"prompt": "hello"},
    "OllamaEmbed": {"input": "hello"},
    "OllamaEmbeddings": {"prompt": "hello"},
    "OllamaPull": {"model": "llm"},
    "OllamaDelete": {"model": "llm"},
    "Shown": {"model": "llm"},
}
"""Bodies that the server answers, by the name of the record."""
