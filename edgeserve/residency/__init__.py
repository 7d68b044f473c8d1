"""Engines in memory: each has a gate with a queue, and behind it a host (edgeserve/hosts)."""
