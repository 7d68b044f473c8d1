"""edgeserve: chat, vision, transcription and speech over HTTP with local models, inside a memory budget."""

__version__ = "0.1.0"
