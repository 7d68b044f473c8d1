"""Engines in memory: each has a gate with a queue, and a host that moves it up and down and makes its answers."""
