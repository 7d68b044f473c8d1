"""The routes of Ollama's dialect."""

from __future__ import annotations

from typing import Any

from edgeserve.api.entry import Entry
from edgeserve.api.ollama import chat, embed, generate, lists, ndjson, pull, refusals, status

STREAMED: dict[str, Any] = {"answer": ndjson.MEDIA_TYPE, "also": ("application/json",)}
OLLAMA = (
    Entry("POST", "/api/chat", "Ollama's chat", chat.chat, chat.OllamaChat, **STREAMED),
    Entry("POST", "/api/generate", "Ollama's completion", generate.generate, generate.OllamaGenerate, **STREAMED),
    Entry("POST", "/api/embed", "Ollama's embeddings", embed.embed, embed.OllamaEmbed),
    Entry("POST", "/api/embeddings", "Ollama's older embedding", embed.embeddings, embed.OllamaEmbeddings),
    Entry("GET", "/api/tags", "Models, as Ollama lists them", lists.tags),
    Entry("GET", "/api/ps", "Models in memory, as Ollama lists them", lists.ps),
    Entry("POST", "/api/show", "One model, as Ollama shows it", lists.show, lists.Shown),
    Entry("POST", "/api/pull", "Ollama's pull, with progress", pull.pull, pull.OllamaPull, owner=True, **STREAMED),
    Entry("DELETE", "/api/delete", "Ollama's removal", pull.delete, pull.OllamaDelete, owner=True),
    Entry("GET", "/api/version", "Version of Ollama's API", status.version),
    Entry("GET", "/api/status", "State of Ollama's cloud: none", status.status),
    Entry("POST", "/api/copy", "Not supported", refusals.refuse),
    Entry("POST", "/api/create", "Not supported", refusals.refuse),
    Entry("POST", "/api/push", "Not supported", refusals.refuse),
    Entry("GET", "/api/blobs/{digest}", "Not supported", refusals.find_blob),
    Entry("POST", "/api/blobs/{digest}", "Not supported", refusals.refuse),
)
