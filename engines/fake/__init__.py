"""Engines of every job without a runtime, for tests and benchmarks."""
