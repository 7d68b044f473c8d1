"""Decisions on memory: budget, admission, eviction, pressure, and learned peaks."""
