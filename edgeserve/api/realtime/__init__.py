"""OpenAI's Realtime over a WebSocket: transcription sessions and spoken conversations."""
