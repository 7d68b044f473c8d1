"""Ollama's dialect (docs/api/ollama.md)."""
