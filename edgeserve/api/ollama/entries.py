"""The routes of Ollama's dialect."""

from __future__ import annotations

from typing import Any

from edgeserve.api.entry import Entry
from edgeserve.api.ollama import ndjson

STREAMED: dict[str, Any] = {"answer": ndjson.MEDIA_TYPE, "also": ("application/json",)}
OLLAMA = (
    Entry("POST", "/api/chat", "Ollama's chat", "edgeserve.api.ollama.chat:chat", "OllamaChat", **STREAMED),
    Entry(
        "POST",
        "/api/generate",
        "Ollama's completion",
        "edgeserve.api.ollama.generate:generate",
        "OllamaGenerate",
        **STREAMED,
    ),
    Entry("POST", "/api/embed", "Ollama's embeddings", "edgeserve.api.ollama.embed:embed", "OllamaEmbed"),
    Entry(
        "POST",
        "/api/embeddings",
        "Ollama's older embedding",
        "edgeserve.api.ollama.embed:embeddings",
        "OllamaEmbeddings",
    ),
    Entry("GET", "/api/tags", "Models, as Ollama lists them", "edgeserve.api.ollama.lists:tags"),
    Entry("GET", "/api/ps", "Models in memory, as Ollama lists them", "edgeserve.api.ollama.lists:ps"),
    Entry("POST", "/api/show", "One model, as Ollama shows it", "edgeserve.api.ollama.lists:show", "Shown"),
    Entry(
        "POST",
        "/api/pull",
        "Ollama's pull, with progress",
        "edgeserve.api.ollama.pull:pull",
        "OllamaPull",
        owner=True,
        **STREAMED,
    ),
    Entry("DELETE", "/api/delete", "Ollama's removal", "edgeserve.api.ollama.pull:delete", "OllamaDelete", owner=True),
    Entry("GET", "/api/version", "Version of Ollama's API", "edgeserve.api.ollama.status:version"),
    Entry("GET", "/api/status", "State of Ollama's cloud: none", "edgeserve.api.ollama.status:status"),
    Entry("POST", "/api/copy", "Not supported", "edgeserve.api.ollama.refusals:refuse"),
    Entry("POST", "/api/create", "Not supported", "edgeserve.api.ollama.refusals:refuse"),
    Entry("POST", "/api/push", "Not supported", "edgeserve.api.ollama.refusals:refuse"),
    Entry("GET", "/api/blobs/{digest}", "Not supported", "edgeserve.api.ollama.refusals:find_blob"),
    Entry("POST", "/api/blobs/{digest}", "Not supported", "edgeserve.api.ollama.refusals:refuse"),
)
