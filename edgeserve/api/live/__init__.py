"""Live transcription over HTTP and WebSocket."""
