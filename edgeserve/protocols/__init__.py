"""HTTP and WebSocket on one connection: Uvicorn's protocols with bounds."""
