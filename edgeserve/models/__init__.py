"""Models: catalogue, store, sources, conversions."""
