"""Measurements of the running server; each script writes a table and a picture to docs/benchmarks/."""
