"""GET /metrics."""
